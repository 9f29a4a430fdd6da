"""Where a sandbox's folders come from: a private mount namespace in which each is shown as the command may see it.

As root, a granted folder is id-mapped: the sandbox's uid owns inside what the folder's owner owns outside, and nothing
runs as kuid 0. Copy-on-write is an overlay. Readable folders are overlays without an upper layer, because through a
plain bind a program can connect to a host's socket. An ordinary user gets the same in a user namespace of their own;
where even that is refused ("plain"), folders are copied or bound as they are, and the report says so.
Nothing is mounted outside this namespace, so nothing stays mounted when the spawner dies.
"""

import contextlib
import os
import stat
from typing import Final, Literal, NamedTuple

from tipstaff.isolation import bubblewrap, kernel, quota, trees
from tipstaff.isolation.order import Order

Mode = Literal["root", "user", "plain"]
_STAGE_BYTES: Final = 1 << 22
_WHITEOUT: Final = stat.S_IFCHR
_FEW: Final = 200
# Said outright, because a kernel may be built with other defaults: an upper layer holds whole files and marks of
# removal, and refers to nothing. `redirect_dir=off` would not do: some kernels then still follow what they find.
_WHOLE: Final = "volatile,metacopy=off,redirect_dir=nofollow,index=off"


class UnfitError(Exception):
    """What was ordered cannot be staged on this host; the message says why."""


class Staged(NamedTuple):
    """The folders of one sandbox, ready to be bound."""

    base: str
    scratch: str
    workspace: str
    readable: tuple[tuple[str, str], ...]
    replaced: tuple[tuple[str, str], ...]
    watched: str  # where what the command writes ends up on disk; empty when that is not a folder of ours
    project: int = 0  # whose quota bounds what is written; 0: no quota does
    held: tuple[tuple[str, int], ...] = ()  # (path, descriptor) of what is shown by descriptor, not by name


def enter(folder: str, *, mounts: bool = True) -> Mode:
    """Move this process to where it can mount, as far as this host lets it. Called once, before anything else."""
    if os.geteuid() == 0:
        _enter_as_root(folder)
        return "root"
    if not (mounts and _user_can_mount(folder)):
        return "plain"
    _enter_as_user(folder)
    return "user"


def _enter_as_root(folder: str) -> None:
    kernel.unshare(kernel.NEW_MOUNTS)
    _settle(folder)


def _enter_as_user(folder: str) -> None:
    kernel.enter_own_namespaces()
    _settle(folder)


def _settle(folder: str) -> None:
    kernel.own_mounts()
    # Others may pass through and see nothing: bubblewrap resolves its sources under the sandbox's uid.
    options = f"mode=0711,size={_STAGE_BYTES}"
    kernel.mount("tmpfs", folder, "tmpfs", kernel.NO_SUID | kernel.NO_DEVICES, options)


def _user_can_mount(folder: str) -> bool:
    """Try it in a child: a half-made namespace cannot be left again."""
    child = os.fork()
    if child == 0:
        try:
            _enter_as_user(folder)
            for name in ("a", "b", "c"):
                os.mkdir(f"{folder}/{name}")
            _overlay(f"{folder}/c", f"lowerdir={folder}/a:{folder}/b,userxattr")
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _overlay(target: str, options: str, flags: int = 0) -> None:
    kernel.mount("overlay", target, "overlay", flags | kernel.NO_SUID | kernel.NO_DEVICES, options)


class Stage:
    """The private mount namespace of one spawner."""

    def __init__(self, folder: str, scratch: str, mode: Mode) -> None:
        if any(character in f"{folder}{scratch}" for character in ",:\\"):
            raise UnfitError(
                f"'{folder}' or '{scratch}' has a comma, a colon or a backslash, which overlays cannot take"
            )
        self.folder = folder
        self.root = f"{folder}/root"
        self._scratch = scratch
        self.mode = mode
        self.quota = quota.Quota(scratch)
        self._open = mode != "root" or _can_be_passed(scratch)
        self._named: dict[frozenset[str], tuple[str, ...]] = {}
        self._maps: dict[tuple[int, int, int], int] = {}
        self._held: list[tuple[str, int]] = []

    def prepare(self, name: str, order: Order, uid: int | None) -> Staged:
        """Show what `order` grants, for a sandbox that runs as `uid` (None: as ourselves)."""
        base, scratch = f"{self.folder}/{name}", f"{self._scratch}/{name}"
        staged = Staged(base, scratch, "", (), (), "")
        try:
            self._own_folder(scratch, uid, 0o700)  # nobody else's: its name is in the host's table of mounts
            staged = staged._replace(project=self._bounded(scratch, order, uid))
            if self.mode != "plain":
                os.mkdir(base, 0o711)
            workspace, watched = self._workspace(staged, order, uid)
            readable = tuple(
                (self._readable(f"{base}/readable-{place}", path, uid), path)
                for place, path in enumerate(bubblewrap.grants(order.readable))
            )
            replaced = (("/usr", self._masked(base, order.masked)),) if order.masked else ()
        except (OSError, ValueError, UnfitError) as error:
            self.release(staged._replace(held=self._handed_over()))
            raise UnfitError(str(error)) from error
        return Staged(base, scratch, workspace, readable, replaced, watched, staged.project, self._handed_over())

    def _bounded(self, scratch: str, order: Order, uid: int | None) -> int:
        """Set a quota for the empty folder of a sandbox, where one holds; gives its project, or 0."""
        if uid is None or order.kind != "bwrap" or not self.quota.offered:
            return 0
        try:
            self.quota.bind(scratch, uid, order.disk_bytes)
        except OSError:  # watched all the same, and the verdict says so
            return 0
        return uid

    def _handed_over(self) -> tuple[tuple[str, int], ...]:
        held, self._held = tuple(self._held), []
        return held

    def terminals(self, staged: Staged) -> str:
        """Make a file system of terminals for one sandbox: with a shared one, each could look at the others'."""
        place = f"{staged.base}/terminals"
        os.mkdir(place)
        kernel.mount("devpts", place, "devpts", kernel.NO_SUID | kernel.NO_EXEC, "newinstance,ptmxmode=0666,mode=620")
        return place

    def kept(self, staged: Staged) -> dict[str, str]:
        """Say where what a command wrote in its view of a workspace lies, outside of our mount namespace too."""
        if self.mode == "plain":
            return {"copy": staged.watched}
        return {"upper": staged.watched, "marks": "trusted.overlay." if self.mode == "root" else "user.overlay."}

    def release(self, staged: Staged) -> int:
        """Take a sandbox's mounts and folders away; returns the process that still removes, or 0 when all is gone."""
        for _, descriptor in staged.held:
            os.close(descriptor)
        if self.mode != "plain" and os.path.isdir(staged.base):
            for entry in os.scandir(staged.base):
                with contextlib.suppress(OSError):  # it says no where nothing is mounted any more
                    while True:
                        kernel.unmount(entry.path)
            trees.remove(staged.base)
        if trees.small(staged.scratch, _FEW):
            trees.remove(staged.scratch)
            return 0
        child = os.fork()
        if child == 0:
            _remove_and_exit(staged.scratch)
        return child

    def _workspace(self, staged: Staged, order: Order, uid: int | None) -> tuple[str, str]:
        place = f"{staged.base}/workspace"
        if order.workspace is None:
            folder = self._own_folder(f"{staged.scratch}/workspace", uid, 0o755)
            # Where the sandbox's uid can find it, a mount less: taking one away costs milliseconds.
            return (folder if self._open else self._attached(folder, place, None)), folder
        descriptor, found = _opened(order.workspace)
        try:
            if not stat.S_ISDIR(found.st_mode):
                raise UnfitError(f"the workspace '{order.workspace}' is not a folder")
            if order.in_place:
                return self._attached(order.workspace, place, uid), ""
            if self.mode == "plain":
                copied = self._own_folder(f"{staged.scratch}/workspace", uid, 0o755)
                trees.copy(descriptor, copied, order.disk_bytes)
                return copied, copied
            return self._copy_on_write(staged, order.workspace, uid)
        finally:
            os.close(descriptor)

    def _copy_on_write(self, staged: Staged, workspace: str, uid: int | None) -> tuple[str, str]:
        lower, place = f"{staged.base}/lower", f"{staged.base}/workspace"
        # Read-only by its mount too: bases share files among each other, and with what they were made from.
        self._attached(workspace, lower, uid, kernel.ATTRIBUTE_READ_ONLY)
        upper = self._own_folder(f"{staged.scratch}/upper", uid, stat.S_IMODE(os.stat(lower).st_mode) | 0o700)
        work = self._own_folder(f"{staged.scratch}/work", uid, 0o700)
        os.mkdir(place)
        # Volatile: what is written is thrown away with the sandbox, and nobody has to wait until it is on disk.
        extra = _WHOLE if self.mode == "root" else f"{_WHOLE},userxattr"
        _overlay(place, f"lowerdir={lower},upperdir={upper},workdir={work},{extra}")
        return place, upper

    def _readable(self, place: str, path: str, uid: int | None) -> str:
        if self.mode == "plain":
            descriptor = self._hold(path)
            _refuse_doors(path, f"/proc/self/fd/{descriptor}")
            return path
        descriptor, found = _opened(path)
        os.close(descriptor)
        if not stat.S_ISDIR(found.st_mode):
            return self._attached(path, place, uid)
        self._attached(path, f"{place}-lower", uid)
        for name in (place, f"{place}-empty"):  # an overlay wants two layers
            os.mkdir(name)
        extra = "" if self.mode == "root" else ",userxattr"
        _overlay(place, f"lowerdir={place}-lower:{place}-empty{extra}", kernel.READ_ONLY)
        return place

    def _masked(self, base: str, names: tuple[str, ...]) -> str:
        """Show /usr without the programs of these names: a whiteout takes a name away and leaves a link's target."""
        if self.mode == "plain":
            raise UnfitError("names cannot be masked without a mount namespace of our own")
        os.mkdir(f"{base}/mask", 0o755)
        for path in self._found(frozenset(names)):
            os.makedirs(os.path.dirname(f"{base}/mask/{path}"), exist_ok=True)
            os.mknod(f"{base}/mask/{path}", _WHITEOUT, 0)
        os.mkdir(f"{base}/usr")
        extra = "" if self.mode == "root" else ",userxattr"
        _overlay(f"{base}/usr", f"lowerdir={base}/mask:/usr{extra}", kernel.READ_ONLY)
        return f"{base}/usr"

    def _found(self, names: frozenset[str]) -> tuple[str, ...]:
        """List everything below /usr that has one of these names and is no folder; looked for once."""
        if names not in self._named:
            walked = os.walk("/usr", onerror=None)
            paths = [f"{folder}/{name}" for folder, _, files in walked for name in names.intersection(files)]
            self._named[names] = tuple(path.removeprefix("/usr/") for path in paths)
        return self._named[names]

    def _own_folder(self, path: str, uid: int | None, mode: int) -> str:
        os.mkdir(path)
        os.chmod(path, mode)
        if uid is not None:
            os.chown(path, uid, uid)
        return path

    def _attached(self, path: str, place: str, uid: int | None, attributes: int = 0) -> str:
        """Show the folder or file at `path` at `place`, owned by `uid` where its owner owns it."""
        if self.mode == "plain":
            self._hold(path)
            return path
        descriptor, found = _opened(path)
        try:
            if stat.S_ISDIR(found.st_mode):
                os.mkdir(place)
            else:
                os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
            owner = self._map(found.st_uid, found.st_gid, uid) if uid is not None else None
            kernel.attach(descriptor, place, owner, attributes)
        except OSError as error:
            raise UnfitError(f"'{path}' cannot be shown in a sandbox: {error.strerror}") from error
        finally:
            os.close(descriptor)
        return place

    def _hold(self, path: str) -> int:
        """Keep hold of what a path means now: who shows it later by name would show whatever it means then."""
        descriptor, _ = _opened(path)
        self._held.append((path, descriptor))
        return descriptor

    def _map(self, user: int, group: int, uid: int) -> int:
        key = (user, group, uid)
        if key not in self._maps:
            self._maps[key] = kernel.owner_map((user, group), (uid, uid))
        return self._maps[key]


def _opened(path: str) -> tuple[int, os.stat_result]:
    """Open a granted folder or file by name, once: whatever the name means later, this is what is shown."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise UnfitError(f"'{path}' cannot be opened: {error.strerror}") from error
    found, real = os.fstat(descriptor), os.readlink(f"/proc/self/fd/{descriptor}")
    problem = ""
    if real != path:
        # Whoever can write above it could have led it elsewhere since it was decided on.
        problem = f"'{path}' really is '{real}': a link leads elsewhere; name the real path"
    elif not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        problem = f"'{path}' is neither a folder nor a file"
    if problem:
        os.close(descriptor)
        raise UnfitError(problem)
    return descriptor, found


def _can_be_passed(folder: str) -> bool:
    """Say whether anybody may enter this folder and all above it."""
    while folder != "/":
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return False
        folder = os.path.dirname(folder)
    return True


def _refuse_doors(path: str, held: str) -> None:
    if found := trees.doors(held):
        found = path + found.removeprefix(held)
        raise UnfitError(f"'{found}' is a socket, a pipe or a device: through it a command could reach what is outside")


def _remove_and_exit(folder: str) -> None:
    """In a child of its own: the spawner has other sandboxes to mind, and the kept rights reach every folder."""
    os.closerange(3, 1 << 16)
    with contextlib.suppress(OSError):
        trees.remove(folder)
    os._exit(0)
