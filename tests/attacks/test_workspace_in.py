"""Hostile manifests and blobs: whatever they say, nothing is written but beneath the target, and no bomb goes off."""

import json
import os
import shutil
import zlib
from functools import cache
from hashlib import sha1, sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.workspace.shelf import Shelf, entries, git, grow, seen
from tipstaff.errors import InputError, TipstaffError
from tipstaff.model.noun import VERSION_MANIFEST
from tipstaff.workspace import listing
from tipstaff.workspace.materialise import packing
from tipstaff.workspace.materialise.bounds import Caps
from tipstaff.workspace.materialise.making import materialise

FILE, LINK = "100644", "120000"


class Site:
    """A target, with a canary above and beside it, and blobs from a store that checks nothing."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.shelf = Shelf()
        self.target = top / "target"
        self.outside = top / "outside"
        for folder in (self.target, self.outside):
            folder.mkdir()
        (self.outside / "canary").write_bytes(b"alive")

    def fresh(self) -> Path:
        """Give an empty target: what is left in one that failed is thrown away."""
        shutil.rmtree(self.target)
        self.target.mkdir()
        return self.target

    def refuse(self, manifest, said=".", caps=Caps()):  # noqa: B008 - a value
        """Claim that a manifest is refused with our own error, and that nothing outside the target changed."""
        before = seen(self.top, but=(b"target", b"repository"))
        with pytest.raises(InputError, match=said):
            materialise(manifest, self.shelf, self.fresh(), caps)
        assert seen(self.top, but=(b"target", b"repository")) == before

    def take(self, manifest, caps=Caps()):  # noqa: B008 - as above
        """Claim that a manifest is taken; gives what was made."""
        materialise(manifest, self.shelf, self.fresh(), caps)
        return seen(self.target)

    def tree(self, *rows, packs=()):
        """Spell a tree's manifest from the rows of its list, whatever these say, with a pack of all their contents."""
        contents = {content for _, _, content in rows if content}
        spelled = [[mode, name, digest(content), len(content)] for mode, name, content in rows]
        return self.listed(spelled, [self.pack(*contents), *packs] if contents else list(packs))

    def listed(self, rows, packs=()):
        """Spell a tree's manifest from the rows of its list as they are."""
        tree = self.shelf.put(json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode())
        manifest = {"version": VERSION_MANIFEST, "kind": "tree", "baseRef": tree, "treeHash": tree}
        return {**manifest, "packs": list(packs)}

    def pack(self, *contents):
        """Keep a pack with these contents."""
        line = json.dumps([[digest(content), len(content)] for content in contents]).encode()
        return self.shelf.put(line + b"\n" + b"".join(contents))

    @property
    def origin(self) -> Path:
        """A repository, made when it is first asked for."""
        folder = self.top / "repository"
        if not folder.exists():
            git(self.top, "init", "-q", str(folder))
        return folder

    def repository(self, tree: str = "", **more):
        """Spell the manifest of a repository whose commit has this tree, or one with the file `a`."""
        if not tree:
            commit, bundle = ordinary()
        else:
            commit = git(self.origin, "commit-tree", "-m", "m", tree).decode().strip()
            git(self.origin, "update-ref", "refs/heads/main", commit)
            bundle = git(self.origin, "bundle", "create", "-q", "-", "HEAD", "main")
        return {"version": VERSION_MANIFEST, "baseRef": commit, "bundleHash": self.shelf.put(bundle), **more}

    def blob(self, content: bytes) -> bytes:
        """Keep a content in the repository; gives git's name for it."""
        return git(self.origin, "hash-object", "-w", "--stdin", stdin=content).strip()

    def plant(self, *rows: tuple[bytes, bytes, bytes]) -> str:
        """Keep a tree in the repository as it is spelled, though git itself would not make it."""
        raw = b"".join(b"%s %s\0%s" % (mode, name, bytes.fromhex(blob.decode())) for mode, name, blob in rows)
        stored = b"tree %d\0%s" % (len(raw), raw)
        name = sha1(stored, usedforsecurity=False).hexdigest()
        path = self.origin / ".git/objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(stored))
        return name

    def pack_of(self, commit: str) -> bytes:
        """Pack a commit with all that it needs."""
        return git(self.origin, "pack-objects", "-q", "--stdout", "--revs", stdin=commit.encode() + b"\n")

    def untracked(self, name: str, content: bytes, **more):
        """Spell an untracked file."""
        return {"path": name, "hash": self.shelf.put(content), "bytes": len(content), **more}


@cache
def ordinary() -> tuple[str, bytes]:
    """Give the commit and the bundle of a repository with the file `a`."""
    with TemporaryDirectory() as top:
        site = Site(Path(top))
        manifest = site.repository(site.plant((b"100644", b"a", site.blob(b"a\n"))))
        return manifest["baseRef"], site.shelf.get(manifest["bundleHash"])


def digest(content: bytes) -> str:
    """Give a content's digest, and none for a folder."""
    return sha256(content).hexdigest()


@pytest.fixture
def site(tmp_path):
    """A target and what must not change."""
    return Site(tmp_path)


OUT = ["../outside/x", "/etc/tipstaff-canary", "a/../../outside/x", "./x", "a//x", "", "x\0y", "a/.", "n" * 256]
GIT = [
    ".git/hooks/post-checkout",
    ".git",
    ".GIT/config",
    ".gIt/config",
    "a/.git/config",
    ".git./config",
    ".git /config",
    ".git::$INDEX_ALLOCATION/config",
    "git~1/config",
    "GIT~1",
    ".g\u200cit/config",
    "\ufeff.git/config",
]


@pytest.mark.parametrize("name", OUT + GIT)
def test_a_tree_names_nothing_outside_and_no_git(site, name):
    """A name that leads out, or is `.git` to some file system, refuses the whole list."""
    site.refuse(site.tree((FILE, name, b"x")))

    assert seen(site.target, but=()) == {}


@pytest.mark.parametrize("name", OUT + GIT)
def test_an_untracked_file_names_nothing_outside_and_no_git(site, name):
    """The same for the untracked files of a repository."""
    site.refuse(site.repository(untrackedFiles=[site.untracked(name, b"x")]))

    assert not (site.target / "a").exists()


@pytest.mark.parametrize("name", ["..x", "x..", ".gitignore", ".github/x", "git", "a.git/x", ".gitx", "git~", "…"])
def test_names_that_only_look_alike_are_taken(site, name):
    """The twin of both: such names are ordinary."""
    assert site.take(site.tree((FILE, name, b"x")))[name.encode()] == (0o100644, b"x")


@pytest.mark.parametrize("name", ["..x", ".gitignore", "git", "sub/x"])
def test_untracked_names_that_only_look_alike_are_taken(site, name):
    """The same for the untracked files of a repository."""
    found = site.take(site.repository(untrackedFiles=[site.untracked(name, b"x")]))

    assert found[name.encode()] == (0o100644, b"x")
    assert found[b"a"] == (0o100644, b"a\n")


@pytest.mark.parametrize("goal", ["/etc", "../outside", "../outside/canary", "sub/../../outside", "..", "/"])
def test_a_link_that_leads_out_is_refused(site, goal):
    """A link to anywhere but the inside is not made, as a tree's or as an untracked one."""
    content = goal.encode()
    site.refuse(site.tree((LINK, "l", content)), "leads out")
    assert not (site.target / "l").is_symlink()


@pytest.mark.parametrize("goal", ["a", "sub/../a", "./a", "nowhere", "l", "."])
def test_a_link_that_stays_inside_is_made(site, goal):
    """The twin: links within the folder are kept, even those that lead nowhere."""
    found = site.take(site.tree((FILE, "a", b"x"), (LINK, "l", goal.encode())))

    assert found[b"l"] == (0o120777, goal.encode())


def test_a_link_that_leads_out_by_way_of_another_is_refused(site):
    """Where `s/up` leads to the top, `s/up/../outside` leads out, though no link alone is spelled so."""
    rows = [(LINK, "s/out", b"up/../outside/canary"), (LINK, "s/up", b"..")]

    site.refuse(site.tree(*rows), "'s/out' leads out")


def test_nothing_is_written_through_a_link(site):
    """A list with the link `out` and the file `out/x` is refused; with a folder in its place it is taken."""
    site.refuse(site.tree((LINK, "out", b"../outside"), (FILE, "out/x", b"x")), "beneath what is no folder")
    site.refuse(site.tree((LINK, "out", b"."), (FILE, "out/x", b"x")), "beneath what is no folder")

    assert site.take(site.tree((FILE, "out/x", b"x")))[b"out/x"] == (0o100644, b"x")


@pytest.mark.parametrize("goal", [b"../outside", b"/etc", b"."])
def test_no_untracked_file_is_written_through_a_tracked_link(site, goal):
    """A commit with the link `out` and an untracked `out/x` (flaw 30) is refused, wherever the link leads."""
    tree = site.plant((b"120000", b"out", site.blob(goal)))

    site.refuse(site.repository(tree, untrackedFiles=[site.untracked("out/x", b"x")]))


@pytest.mark.parametrize("order", [1, -1])
def test_no_untracked_file_is_written_through_an_untracked_link(site, order):
    """The same among untracked files, in either order."""
    found = [site.untracked("out", b"sub", mode="120000"), site.untracked("out/x", b"x")]

    site.refuse(site.repository(untrackedFiles=found[::order]), "twice, or beneath")


def test_a_name_comes_once(site):
    """A name twice, in a list or as tracked and untracked, is refused."""
    row = [FILE, "x", digest(b"x"), 1]
    site.refuse(site.listed([row, row], [site.pack(b"x")]), "twice")
    site.refuse(site.repository(untrackedFiles=[site.untracked("a", b"x")]), "twice")


@pytest.mark.parametrize("mode", ["020666", "060666", "010644", "140755", "104755", "102755", "101777", "160000", "0"])
def test_devices_sockets_and_set_uid_are_refused(site, mode):
    """Neither a device nor a socket, a pipe, or a bit that changes who runs a program is made."""
    site.refuse(site.tree((mode, "x", b"x")))


@pytest.mark.parametrize("mode", ["020666", "060666", "010644", "140755", "104755", "040755", "160000", "0", "rwx", ""])
def test_untracked_devices_sockets_and_set_uid_are_refused(site, mode):
    """The same for what a manifest calls an untracked file."""
    site.refuse(site.repository(untrackedFiles=[site.untracked("x", b"x", mode=mode)]), "neither a file nor a link")


@pytest.mark.parametrize("mode", ["100644", "100755", "100600"])
def test_ordinary_rights_are_taken(site, mode):
    """The twin: files of any ordinary rights are made with them."""
    assert site.take(site.tree((mode, "x", b"x")))[b"x"] == (int(mode, 8), b"x")


@pytest.mark.parametrize("names", [["a", "b", "c"], ["a/b/c"], ["a/x", "b"]])
def test_a_tree_has_at_most_so_many_entries(site, names):
    """Files and the folders that they are in count against the cap; one less is taken."""
    manifest = site.tree(*((FILE, name, b"x") for name in names))

    site.refuse(manifest, "more than 2 files", Caps(entries=2))
    assert seen(site.target, but=()) == {}
    assert len(site.take(manifest, Caps(entries=3))) == 3


def test_a_commit_of_trees_within_trees_has_at_most_so_many_entries(site):
    """A tree that names the same tree ten times, six deep, is a million files in ten objects: it stops at the cap."""
    tree = site.plant((b"100644", b"f", site.blob(b"x")))
    for _ in range(6):
        tree = site.plant(*((b"40000", b"%d" % number, tree.encode()) for number in range(10)))
    manifest = site.repository(tree)

    site.refuse(manifest, "more than 1000 files", Caps(entries=1000))

    assert sum(len(files) for _, _, files in os.walk(site.target)) < 50


def test_a_lean_commit_of_trees_within_trees_stops_at_the_cap_too(site):
    """The same in the pack beside a tree, where it would fill the index."""
    tree = site.plant((b"100644", b"f", site.blob(b"x")))
    for _ in range(6):
        tree = site.plant(*((b"40000", b"%d" % number, tree.encode()) for number in range(10)))
    commit = site.repository(tree)["baseRef"]
    pack = site.pack_of(commit)
    manifest = site.tree((FILE, "x", b"x"))
    inside = {"commit": commit, "packHash": site.shelf.put(pack)}

    site.refuse({**manifest, "git": inside}, "more than 1000 files", Caps(entries=1000))


@pytest.mark.parametrize("kind", ["tree", "repository", "diff"])
def test_a_workspace_has_at_most_so_many_bytes(site, kind):
    """The bytes that a workspace would unpack to are counted before any is written; as many as the cap are taken."""
    content = b"x" * 1000
    if kind == "tree":
        manifest = site.tree((FILE, "a", content), (FILE, "b", content))
    elif kind == "repository":
        blob = site.blob(content)
        manifest = site.repository(site.plant((b"100644", b"a", blob), (b"100644", b"b", blob)))
    else:
        added = "".join(f"+{'x' * 99}\n" for _ in range(20))
        diff = f"diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1,20 @@\n{added}"
        manifest = site.repository(site.plant(), dirtyDiffHash=site.shelf.put(diff.encode()))

    site.refuse(manifest, "2000 bytes; at most 1999", Caps(bytes=1999))
    assert seen(site.target) == {}
    assert sum(len(content) for _, content in site.take(manifest, Caps(bytes=2000)).values()) == 2000


@pytest.mark.parametrize("kind", ["tree", "repository"])
def test_a_bomb_does_not_go_off(site, kind):
    """Many bytes from few, by compression or by one content under many names, are refused; by a higher ratio taken."""
    content = b"\0" * 1_000_000
    if kind == "tree":
        manifest = site.tree(*((FILE, str(number), content[:10_000]) for number in range(100, 200)))
    else:
        manifest = site.repository(site.plant((b"100644", b"zeros", site.blob(content))))

    site.refuse(manifest, "more than 50 times as many", Caps(ratio=50, small=1000))
    assert seen(site.target) == {}
    assert sum(len(content) for _, content in site.take(manifest, Caps(ratio=2000, small=1000)).values()) == 1_000_000


def test_a_delta_does_not_make_git_take_all_memory(site):
    """A delta of a few bytes that says it makes sixteen gigabytes ends git before it asks for them."""
    base = sha1(b"blob 1\0x", usedforsecurity=False).digest()
    delta = b"\x01" + b"\x80\x80\x80\x80\x40" + b"\x90\x01"  # from one byte to 2**34: copy the byte
    objects = b"\x31" + zlib.compress(b"x") + b"\x78" + base + zlib.compress(delta)
    pack = b"PACK\0\0\0\x02\0\0\0\x02" + objects
    pack += sha1(pack, usedforsecurity=False).digest()
    bundle = b"# v2 git bundle\n%s refs/heads/main\n\n" % (b"0" * 40) + pack
    manifest = {"version": VERSION_MANIFEST, "baseRef": "0" * 40, "bundleHash": site.shelf.put(bundle)}

    site.refuse(manifest, "attempting to allocate 17179869")


def test_faults_of_old_history_that_harm_nobody_are_taken(site):
    """Modes with a zero in front, and authors without an address, are in real repositories."""
    below = site.plant((b"100644", b"x", site.blob(b"x")))
    tree = site.plant((b"040000", b"d", below.encode()))
    commit = b"tree %s\nauthor A 1 +051800\ncommitter A <a@b> 1 +0000\n\nm\n" % tree.encode()
    name = (
        git(site.origin, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=commit).decode().strip()
    )
    git(site.origin, "update-ref", "refs/heads/main", name)
    bundle = git(site.origin, "bundle", "create", "-q", "-", "HEAD", "main")
    manifest = {"version": VERSION_MANIFEST, "baseRef": name, "bundleHash": site.shelf.put(bundle)}

    assert site.take(manifest)[b"d/x"] == (0o100644, b"x")


def test_little_is_taken_whatever_the_ratio(site):
    """A few megabytes harm nobody, however well they were compressed."""
    content = b"\0" * 1_000_000

    found = site.take(site.repository(site.plant((b"100644", b"zeros", site.blob(content)))))

    assert found[b"zeros"] == (0o100644, content)


LYING = {
    "longer": lambda line: [[line[0][0], 4]],
    "shorter": lambda line: [[line[0][0], 2]],
    "another digest": lambda _: [["0" * 64, 3]],
    "negative": lambda line: [[line[0][0], -3]],
    "no number": lambda line: [[line[0][0], "3"]],
    "huge": lambda line: [[line[0][0], 2**70]],
    "no digest": lambda _: [["../../x", 3]],
    "no list": lambda line: {line[0][0]: 3},
    "empty pieces": lambda line: [[line[0][0], 0], *line],
}


@pytest.mark.parametrize("lie", LYING)
def test_a_pack_whose_first_line_lies_is_refused(site, lie):
    """Lengths, digests and shapes that are not so: the pack is refused, or does not hold what is wanted."""
    line = LYING[lie]([[digest(b"abc"), 3]])
    pack = site.shelf.put(json.dumps(line).encode() + b"\nabc")
    manifest = site.listed([[FILE, "x", digest(b"abc"), 3]], [pack])

    with pytest.raises(TipstaffError):
        materialise(manifest, site.shelf, site.fresh())
    honest = site.shelf.put(json.dumps([[digest(b"abc"), 3]]).encode() + b"\nabc")
    assert site.take({**manifest, "packs": [honest]}) == {b"x": (0o100644, b"abc")}


@pytest.mark.parametrize("held", [[b"ab", b"xx"], [b"ab", b"cde"], [b"abcd", b"e"], [b"ab"], [b"ab", b"", b"cd"]])
def test_pieces_that_do_not_make_the_content_are_refused(site, held):
    """A content in pieces must be whole, in order, and have its digest."""
    wanted = digest(b"abcd")
    packs = [site.shelf.put(json.dumps([[wanted, len(one)]]).encode() + b"\n" + one) for one in held]
    packs[-1] = (
        packs[-1] if held != [b"abcd", b"e"] else site.shelf.put(json.dumps([[wanted, 5]]).encode() + b"\nabcde")
    )
    manifest = site.listed([[FILE, "x", wanted, 4]], packs if held != [b"abcd", b"e"] else packs[1:])

    with pytest.raises(TipstaffError):
        materialise(manifest, site.shelf, site.fresh())


def test_pieces_that_make_the_content_are_taken(site):
    """The twin: two pieces in two packs are one file."""
    wanted = digest(b"abcd")
    packs = [site.shelf.put(json.dumps([[wanted, 2]]).encode() + b"\n" + one) for one in (b"ab", b"cd")]

    assert site.take(site.listed([[FILE, "x", wanted, 4]], packs)) == {b"x": (0o100644, b"abcd")}


def test_a_list_that_lies_about_sizes_is_refused(site):
    """A size in the list that is not the content's, and an empty file that has the digest of another, are refused."""
    site.refuse(site.listed([[FILE, "x", digest(b"abc"), 0]], [site.pack(b"abc")]), "not by its digest")
    rows = [[FILE, "x", digest(b"abc"), 3], [FILE, "y", digest(b"abc"), 2]]
    site.refuse(site.listed(rows, [site.pack(b"abc")]), "has 2 bytes, not 3")


@pytest.mark.parametrize("target", [b"a\0b", b"x" * 5000])
def test_a_link_has_a_target_that_a_link_can_have(site, target):
    """A target with a NUL, or longer than a path, is refused."""
    site.refuse(site.tree((LINK, "l", target)), "can point to|longer than a link")


@pytest.mark.parametrize("target", [b"a\0b", b"x" * 5000])
def test_a_tracked_link_has_a_target_that_a_link_can_have(site, target):
    """The same for a link of a commit."""
    site.refuse(site.repository(site.plant((b"120000", b"l", site.blob(target)))), "can point to|longer than a link")


@pytest.mark.parametrize("which", ["bundleHash", "dirtyDiffHash", "untracked", "treeHash", "packs", "packHash"])
def test_every_blob_is_hashed_before_it_is_used(site, which):
    """A store that gives other bytes than were asked for is found out, for each kind of blob."""
    diff = b"diff --git a/a b/a\nindex 7898192..6178079 100644\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n"
    tree = site.plant((b"100644", b"a", site.blob(b"a\n")))
    whole = site.repository(tree, dirtyDiffHash=site.shelf.put(diff), untrackedFiles=[site.untracked("x", b"x")])
    pack = site.pack_of(whole["baseRef"])
    lean = {**site.tree((FILE, "x", b"x")), "git": {"commit": whole["baseRef"], "packHash": site.shelf.put(pack)}}
    manifest = whole if which in {"bundleHash", "dirtyDiffHash", "untracked"} else lean
    assert site.take(manifest)[b"x"] == (0o100644, b"x")
    wanted = {"untracked": digest(b"x"), "packs": lean["packs"][0], "packHash": lean["git"]["packHash"]}
    wanted |= {key: manifest[key] for key in ("bundleHash", "dirtyDiffHash", "treeHash") if key in manifest}
    site.shelf.kept[wanted[which]] += b"\n"

    site.refuse(manifest, "has other bytes than its digest")


def test_an_untracked_file_has_the_size_that_the_manifest_says(site):
    """A size that is not the content's is a lie about how much would be unpacked."""
    site.refuse(site.repository(untrackedFiles=[{**site.untracked("x", b"xyz"), "bytes": 1}]), "3 bytes, and not 1")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda _: b"\0" * 100,
        lambda _: b"# v2 git bundle\n",
        lambda _: b"# v2 git bundle\n\n",
        lambda whole: whole[:-1],
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole + b"more",
        lambda whole: whole.replace(b"# v2", b"# v9"),
        lambda whole: whole.replace(b"refs/heads/main", b"refs/heads/main\n-" + b"0" * 40),
        lambda whole: whole.replace(b"# v2 git bundle\n", b"# v3 git bundle\n@filter=blob:none\n"),
        lambda whole: whole.replace(b"# v2 git bundle\n", b"# v3 git bundle\n@object-format=sha256\n"),
        lambda whole: whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:],
        lambda whole: whole.replace(b"PACK\0\0\0\2", b"PACK\0\0\0\2\xff\xff"),
    ],
)
def test_a_bundle_that_is_none_is_refused(site, spoil):
    """Random, truncated, lengthened, partial and damaged bundles are each an InputError."""
    manifest = site.repository()
    spoilt = spoil(site.shelf.get(manifest["bundleHash"]))

    site.refuse({**manifest, "bundleHash": site.shelf.put(spoilt)})
    assert site.take(manifest) == {b"a": (0o100644, b"a\n")}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(content=st.binary(max_size=300), head=st.sampled_from([b"", b"# v2 git bundle\n", b"# v3 git bundle\n@x\n"]))
def test_any_bundle_is_read_or_refused(tmp_path_factory, head, content):
    """Whatever bytes stand for a bundle, nothing but an InputError comes of them."""
    site = Site(tmp_path_factory.mktemp("any"))
    manifest = {"version": VERSION_MANIFEST, "baseRef": "0" * 40, "bundleHash": site.shelf.put(head + content)}

    site.refuse(manifest)


def test_the_commit_must_be_in_the_bundle_and_be_one(site):
    """A base that the bundle does not name, and one that is a tree, are refused."""
    manifest = site.repository(site.plant((b"100644", b"a", site.blob(b"a\n"))))
    site.refuse({**manifest, "baseRef": "0" * 40}, "does not hold the commit")
    tree = git(site.origin, "rev-parse", "HEAD^{tree}").decode().strip()
    head = site.shelf.get(manifest["bundleHash"]).replace(manifest["baseRef"].encode(), tree.encode())
    site.refuse({**manifest, "baseRef": tree, "bundleHash": site.shelf.put(head)}, "does not hold the commit")
    for other in ("HEAD", "main", "--upload-pack=x", "", "0" * 41):
        site.refuse({**manifest, "baseRef": other}, "not the name of a commit")


@pytest.mark.parametrize("name", [b".git", b"..", b".", b".GIT", b"git~1", b".git ", "\u200d.git".encode(), b"a/b"])
def test_a_commit_whose_tree_names_git_or_leads_out_is_refused(site, name):
    """Trees that git itself would not make, but a hostile packer can, are not unpacked."""
    below = site.plant((b"100755", b"x", site.blob(b"#!/bin/sh\n")))
    for manifest in (
        site.repository(site.plant((b"40000", name, below.encode()))),
        site.repository(site.plant((b"100644", name, site.blob(b"x")))),
    ):
        site.refuse(manifest)
        assert not any(site.target.rglob("x"))


@pytest.mark.parametrize("mode", [b"20666", b"60666", b"10644", b"140755", b"100000", b"104755", b"102644", b"7"])
def test_a_commit_with_an_unknown_mode_has_no_device_and_no_set_uid(site, mode):
    """Modes that git itself would not write are read as git reads them: a plain file, or an empty folder."""
    (found,) = site.take(site.repository(site.plant((mode, b"x", site.blob(b"x"))))).values()

    assert found in {(0o100644, b"x"), (0o100755, b"x"), (0o040755, b"")}


def test_a_commit_with_a_name_twice_is_refused(site):
    """A link and a folder of one name in one tree would write through the link."""
    below = site.plant((b"100644", b"x", site.blob(b"x")))
    link = site.blob(b"../outside")

    site.refuse(site.repository(site.plant((b"120000", b"out", link), (b"40000", b"out", below.encode()))))


def test_a_commit_with_a_link_out_is_refused_and_one_within_is_taken(site):
    """A tracked link counts as any other."""
    site.refuse(site.repository(site.plant((b"120000", b"l", site.blob(b"/etc/passwd")))), "leads out")

    found = site.take(site.repository(site.plant((b"120000", b"l", site.blob(b"a")))))
    assert found == {b"l": (0o120777, b"a")}


def new_file(name: str, mode: str = "100644") -> bytes:
    """Spell a diff that adds a file."""
    head = f"diff --git a/{name} b/{name}\nnew file mode {mode}\n--- /dev/null\n+++ b/{name}\n"
    return f"{head}@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n".encode()


@pytest.mark.parametrize(
    "name", ["../outside/x", "/etc/x", ".git/hooks/x", ".GIT/config", "a/../../x", "git~1/x", ".git"]
)
def test_a_diff_that_leaves_the_folder_or_enters_git_is_refused(site, name):
    """A dirty diff writes where a commit could, and nowhere else."""
    site.refuse(site.repository(dirtyDiffHash=site.shelf.put(new_file(name))))

    assert list((site.target / ".git").glob("hooks/*")) == []


def test_a_diff_within_the_folder_is_taken(site):
    """The twin: a new file, in a folder of its own."""
    found = site.take(site.repository(dirtyDiffHash=site.shelf.put(new_file("sub/x", "100755"))))

    assert found[b"sub/x"] == (0o100755, b"x")


def test_a_diff_that_writes_through_a_link_is_refused(site):
    """A diff that makes a link, and a file beneath it, is refused."""
    site.refuse(site.repository(dirtyDiffHash=site.shelf.put(new_file("out", "120000") + new_file("out/x"))))


def test_a_diff_makes_no_device(site):
    """A diff whose new file has the mode of a device makes none."""
    found = site.take(site.repository(dirtyDiffHash=site.shelf.put(new_file("null", "020666"))))

    assert found[b"null"] in {(0o100644, b"x"), (0o040755, b"")}


@pytest.mark.parametrize(
    "diff", [b"", b"nonsense", b"\xff" * 100, b"diff --git a/a b/a\n", new_file("a"), b"GIT binary patch\n"]
)
def test_a_diff_that_does_not_apply_is_refused(site, diff):
    """Nonsense, a part of a diff, or one for another commit: each an InputError."""
    site.refuse(site.repository(dirtyDiffHash=site.shelf.put(diff)), "diff cannot be applied")


def test_the_git_inside_is_ours_alone(site):
    """Whatever the bundle's refs are called, `.git` has no hook, remote or program, and one branch."""
    folder = site.origin
    manifest = site.repository(site.plant((b"100644", b"a", site.blob(b"a\n"))))
    for ref in ("refs/remotes/origin/main", "refs/heads/side", "refs/tags/v1", "refs/hooks/post-checkout"):
        git(folder, "update-ref", ref, manifest["baseRef"])
    bundle = git(folder, "bundle", "create", "-q", "-", "HEAD", "--all")

    site.take({**manifest, "bundleHash": site.shelf.put(bundle)})

    inside = {path.relative_to(site.target / ".git").as_posix() for path in (site.target / ".git").rglob("*")}
    packs = {name for name in inside if name.startswith("objects/pack/")}
    folders = {"objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "info", "hooks"}
    assert inside - packs == folders | {"HEAD", "config", "packed-refs", "index", "info/exclude"}
    assert {Path(name).suffix for name in packs} >= {".pack", ".idx"}
    assert git(site.target, "for-each-ref", "--format=%(refname)") == b"refs/heads/main\n"
    assert git(site.target, "status", "--porcelain") == b""


def test_a_tree_made_by_pack_is_what_these_tests_spell_by_hand(site):
    """The twin of all of them: the rows and packs above are those that a capture writes."""
    tree = {b"a": (0o100644, b"x"), b"l": (0o120777, b"a")}
    listed = entries(tree)
    packs = packing.pack(grow(site.top / "base", tree), listed, site.shelf)
    by_hand = site.tree((FILE, "a", b"x"), ("120777", "l", b"a"))

    assert by_hand["treeHash"] == listing.tree_hash(listing.encode(listed))
    assert site.take({**by_hand, "packs": packs}) == tree
