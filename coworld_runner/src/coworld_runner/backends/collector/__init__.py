"""The program beside a unit in its pod: uploads files, watches and serves what the unit writes, and signals it.

This package is a program for Python 3.9 or later, without dependencies. The Kubernetes backend copies it into each pod
and runs it in a second container, which shares the unit's directory, network and process namespace. It listens on
loopback only, so it can be reached only by the unit, which does not know the token, and by users who may forward a port
of the pod.

`collector_start` is the program; the pod waits for `start_permit`, which ends when the unit may start. Every pod
waits for both, often on a busy node, so they import as little as possible; the code that serves requests is imported
afterwards.

==============================  =====================================================================================
`GET /hello`                  whether the unit runs
`GET /written?since=N`        a line of JSON for each file that a writer closed, then `{"end": true}`
`POST /ended`                 the unit has ended: `/written` sends what is pending, then ends
`GET /left`                   names of the files that can be downloaded
`GET /files/NAME`             a regular file's bytes, from the start of `Range`; its state is the `ETag`
`GET /size/NAME`              its size
`GET /digest/NAME`            its size, SHA-256 and state
`PUT /files/NAME`             a file of the unit's directory, before the unit starts
`PUT /inputs/PATH`            a file that the unit may only read, before the unit starts
`POST /go`                    the unit may start
`GET /ready?port=&path=&…`    polls a port: a line of JSON for each change, until `{"status": 200}`
`POST /signal?name=TERM`      signals the unit's first process; `KILL` goes to all its processes
`GET /used`                   bytes and files in the directory, and the disk limit for which the unit was killed
==============================  =====================================================================================
"""
