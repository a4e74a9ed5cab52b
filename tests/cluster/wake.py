#!/usr/bin/env python3
"""A callback of Patroni (on_role_change): who was promoted wakes the others. Patroni calls it with
the event, the role and the cluster's name behind our arguments: a setting as it stands, and the
addresses of the other members. Setting a value again changes nothing, but a member that gets the
request looks at the cluster at once; without it, it would sleep its loop out first, and commits
would wait for it to follow the new leader."""

import sys
import threading
import urllib.request

ANSWER_S = 2


def wake(address, setting):
    request = urllib.request.Request(
        f"http://{address}/config", data=setting.encode(), method="PATCH"
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S):
            pass
    except OSError as error:
        print(f"wake: {address}: {error}", file=sys.stderr)


def main(setting, *rest):
    *addresses, _event, role, _scope = rest
    if role in ("master", "primary"):
        for address in addresses:  # the one that is gone must not hold up the other
            threading.Thread(target=wake, args=(address, setting)).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
