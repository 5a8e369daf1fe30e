"""JSON Schemas that strangers wrote: checked within a budget, and their errors in words."""
