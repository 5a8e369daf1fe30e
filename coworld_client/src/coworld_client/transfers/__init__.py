"""Downloads from a platform: single files, files of many episodes, and episode bundles."""
