"""Reads files of a shared file system. A floor-0 room: standard library only.

[Note: what a shared file system promises]
On NFS and its like, a file that one host replaces by a rename, or removes, may be gone for another host that has just
opened it: each call on it then ends with ESTALE, until it is opened again (open(2) and nfs(5), close-to-open). Nothing
is wrong with the file or the disk. So whatever is read whole is read again from its open on, TRIES times at most; only
then the error is one. What we rely on besides: a rename shows the old file or the new one and never half of either, and
a file that was closed before another host opens it is read as it was written. docs/runs.md says so to those who run it.
"""

from emberward.files._anew import PAUSE_S, TRIES, anew

__all__ = ["PAUSE_S", "TRIES", "anew"]
