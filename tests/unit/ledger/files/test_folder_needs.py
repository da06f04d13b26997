"""The folders in which brokers may keep ledgers: the verdict on a probe, and the probe of real folders."""

import os
from pathlib import Path

import pytest

from pulsar_barycenter.ledger.errors import LedgerFolderUnfitError
from pulsar_barycenter.ledger.files import folder_probe
from pulsar_barycenter.ledger.files.folder_needs import Access, FolderFitness, Mount, Observed, Step, judge
from pulsar_barycenter.ledger.files.folder_probe import fit_access, mount_of, observe

HELD = dict.fromkeys(Step, "")
NFS = ("rw", "vers=4.2", "hard", "local_lock=none")


def judged(mount: Mount | None, *, several: bool = True, **failed: str) -> FolderFitness:
    answers = HELD | {Step[name]: text for name, text in failed.items()}
    return judge(Observed("/ledgers", mount, answers), several_machines=several)


def test_of_one_machine_any_file_system_will_do_that_locks_and_syncs() -> None:
    for mount in (None, Mount("fuse.sshfs"), Mount("nfs", "", ("vers=3", "nolock")), Mount("ext4")):
        assert judged(mount, several=False, LINK="no", DIRECT="no", RENAME="no") == FolderFitness(Access.CACHED)
        for step in ("CREATE", "LOCK", "SYNC"):
            (problem,) = judged(mount, several=False, **{step: "it did not"}).problems
            assert "it did not" in problem.why


def test_between_machines_it_goes_by_the_kind_of_file_system() -> None:
    assert judged(Mount("nfs4", "server:/ledgers", NFS)) == FolderFitness(Access.DIRECT)
    assert judged(Mount("ceph")) == FolderFitness(Access.CACHED)
    assert judged(Mount("ext4"), DIRECT="Invalid argument") == FolderFitness(Access.CACHED)
    for mount, word in (
        (None, "file system is unknown"),
        (Mount("fuse.sshfs"), "fuse.sshfs is not known"),
        (Mount("cifs"), "cifs is not known"),
        (Mount("nfs", "server:/ledgers", ("vers=3",)), "NFS 3"),
        (Mount("nfs4", "", ("local_lock=all",)), "local_lock=all"),
        (Mount("lustre", "", ("localflock",)), "localflock"),
    ):
        (problem,) = judged(mount).problems
        assert word in problem.why
        assert problem.mend


@pytest.mark.parametrize("step", [step for step in Step if step is not Step.DIRECT])
def test_between_machines_every_step_has_to_hold(step: Step) -> None:
    for mount in (Mount("nfs4", "", NFS), Mount("ext4")):
        (problem,) = judged(mount, **{step.name: "it did not"}).problems
        assert step.value in problem.why
    (problem,) = judged(Mount("nfs4", "", NFS), DIRECT="Invalid argument").problems
    assert Step.DIRECT.value in problem.why


def test_a_step_that_could_not_be_tried_speaks_for_nothing_and_against_nothing() -> None:
    observed = Observed("/ledgers", Mount("nfs4", "", NFS), {Step.CREATE: ""})
    assert judge(observed, several_machines=True) == FolderFitness(Access.DIRECT)


def test_the_longest_mount_point_above_a_folder_is_its_own_and_of_several_the_last() -> None:
    mounts = (
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "30 22 0:40 / /srv rw - tmpfs none rw\n"
        "31 22 0:41 / /srv/a\\040b rw,noatime - nfs4 server:/x rw,vers=4.2,local_lock=none\n"
        "32 22 0:42 / /srv rw - xfs /dev/vdb rw\n"
        "not a line of mounts\n"
    )
    assert mount_of("/srv/a b/ledgers", mounts) == Mount(
        "nfs4", "server:/x", ("rw", "noatime", "rw", "vers=4.2", "local_lock=none")
    )
    assert mount_of("/srv/a b", mounts) == mount_of("/srv/a b/c", mounts)
    for folder, kind in (("/srv", "xfs"), ("/srv/a bc", "xfs"), ("/srvx", "ext4"), ("/", "ext4")):
        mount = mount_of(folder, mounts)
        assert mount is not None
        assert mount.kind == kind
    assert mount_of("/srv", "") is None


def test_a_folder_of_this_machine_is_fit_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "ledgers"
    assert fit_access(str(folder), several_machines=False) is Access.CACHED
    observed = observe(str(folder))
    assert observed.mount is not None
    assert {step: text for step, text in observed.answers.items() if text and step is not Step.DIRECT} == {}
    assert list(folder.iterdir()) == []


def test_a_folder_that_will_not_do_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("22 1 0:50 / / rw - fuse.sshfs me@there:/ rw\n")
    monkeypatch.setattr(folder_probe, "MOUNTS", mounts)
    assert fit_access(str(tmp_path), several_machines=False) is Access.CACHED
    with pytest.raises(LedgerFolderUnfitError, match=r"fuse\.sshfs is not known .* NFS mounted with vers=4\.2"):
        fit_access(str(tmp_path), several_machines=True)


def test_where_no_lock_keeps_out_it_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Free:
        LOCK_EX = LOCK_NB = 0

        @staticmethod
        def flock(descriptor: int, kind: int) -> None:
            pass

    monkeypatch.setattr(folder_probe, "fcntl", Free)
    with pytest.raises(LedgerFolderUnfitError, match="two open files had the lock at once"):
        fit_access(str(tmp_path), several_machines=False)


def test_a_full_disk_hinders_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "pwrite", full)
    assert fit_access(str(tmp_path), several_machines=False) is Access.CACHED
    assert list(tmp_path.iterdir()) == []
