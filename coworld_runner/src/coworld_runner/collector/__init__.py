"""What stands beside a unit in its pod: brings files in, watches and serves what the unit writes, and signals it.

This package is a program for any Python from 3.9 on, without further packages. The Kubernetes backend hands it to each
pod and runs it in a container of its own, beside the unit's: both share the unit's directory, the network and the
process namespace. It listens on loopback only, so that nobody reaches it but the unit itself, which does not know the
token, and whoever may forward a port of the pod.

``start`` is what runs; ``waiting`` ends when the unit may start, which is what the pod waits for. Every pod waits for
both, on a node that is busy with many: what they need is loaded first, and what serves requests after that.

==============================  =====================================================================================
``GET /hello``                  whether the unit runs
``GET /written?since=N``        a line of JSON for each file that a writer closed, then ``{"end": true}``
``POST /ended``                 the unit has ended: what is pending is told, then ``/written`` ends
``GET /files/NAME``             a regular file's bytes, from ``Range`` on; its state is the ``ETag``
``GET /size/NAME``              its size
``GET /digest/NAME``            its size, SHA-256 and state
``PUT /files/NAME``             a file of the unit's directory, before the unit starts
``PUT /inputs/PATH``            one of what it may only read
``POST /go``                    the unit may start
``GET /ready?port=&path=&…``    a line of JSON for each change of what is seen, until ``{"status": 200}``
``POST /signal?name=TERM``      to the unit's first process; ``KILL`` goes to all
``GET /used``                   bytes and files in the directory, and in what way the unit was ended for them
==============================  =====================================================================================
"""
