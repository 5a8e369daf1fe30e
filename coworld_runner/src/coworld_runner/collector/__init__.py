"""The program beside a unit in its pod: uploads files, watches and serves what the unit writes, and signals it.

This package is a program for Python 3.9 or later, without dependencies. The Kubernetes backend copies it into each pod
and runs it in a second container, which shares the unit's directory, network and process namespace. It listens on
loopback only, so it can be reached only by the unit, which does not know the token, and by users who may forward a port
of the pod.

``start`` is the program; the pod waits for ``waiting``, which ends when the unit may start. Every pod waits for both,
often on a busy node, so they load what they need first, and what serves requests afterwards.

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
