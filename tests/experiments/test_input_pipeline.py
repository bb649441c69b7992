"""The input pipeline: slow ways give the same bits, all feeds the same batches, nothing is left."""

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from labcode.errors import InputError, LabError  # noqa: E402
from labcode.experiments.advanced.input_pipeline import (  # noqa: E402
    feed,
    files,
    pictures,
    program,
)
from labcode.experiments.advanced.input_pipeline.program import SLOW_WAYS, VARIANTS, Outcome  # noqa: E402
from tests.support.records import recorded  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
SMALL = [
    *("--device", "cpu", "--batch", "12", "--width", "4", "--files", "60"),
    *("--steps", "4", "--warmup", "24"),
]
CHOSEN = pictures.Augmentation(top=2, left=7, mirrored=True, contrast=1.1)


@pytest.fixture(scope="module")
def pixels() -> pictures.Pixels:
    rng = np.random.default_rng(4)
    return pictures.make_pixels(3, rng, pictures.make_patterns(rng))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return files.write_pictures(tmp_path_factory.mktemp("pictures"), seed=3, count=20)


def test_a_picture_comes_back_from_its_file_by_either_way(pixels: pictures.Pixels) -> None:
    data = pictures.encode(pixels, 7)
    assert len(data) < pixels.size
    for slow in ((), ("decode",)):
        decoded, label = pictures.decode(data, slow)
        assert label == 7 and decoded.dtype == np.uint8
        assert np.array_equal(decoded, pixels)


def test_filter_is_undone_modulo_256() -> None:
    rows = bytes([250, 3, 10, 254])  # rows of two, each the difference from the row above
    for undo in (pictures.undo_filter_bytewise, pictures.undo_filter_cumsum):
        assert undo(rows, (1, 2, 2)).tolist() == [[[250, 3], [4, 1]]]


@pytest.mark.parametrize("way", ["gamma", "equalize"])
def test_slow_transform_gives_the_same_bits(pixels: pictures.Pixels, way: str) -> None:
    fast, slow = pictures.transform(pixels, CHOSEN), pictures.transform(pixels, CHOSEN, (way,))
    assert fast.dtype == np.float32 and fast.shape == (3, 64, 64)
    assert np.array_equal(fast, slow)


def test_transform_crops_mirrors_and_spreads_levels(pixels: pictures.Pixels) -> None:
    plain = replace(CHOSEN, mirrored=False, contrast=1.0)
    straight, mirrored = (
        pictures.transform(pixels, plain),
        pictures.transform(pixels, replace(plain, mirrored=True)),
    )
    assert np.array_equal(straight[:, :, ::-1], mirrored)
    assert np.allclose(pictures.transform(pixels, CHOSEN), 1.1 * mirrored, atol=1e-6)
    assert abs(straight.mean()) < 0.1 and 0.9 < straight.std() < 1.2
    cropped = pixels[0, 2:66, 7:71].ravel()
    order = np.argsort(cropped, kind="stable")
    assert (np.diff(straight[0].ravel()[order]) >= 0).all(), "brighter stays brighter"


def test_equalizing_by_hand() -> None:
    plane = np.array([[[10, 10, 20, 30]]], np.uint8)
    for equalize in (pictures.equalize_bincount, pictures.equalize_counting):
        assert equalize(plane).tolist() == [[[0, 0, 170, 255]]]


def test_gamma_table_is_the_function_of_each_level() -> None:
    levels = np.arange(256, dtype=np.uint8)
    exact = np.rint(255 * (levels / 255.0) ** (1 / 2.2))
    assert np.array_equal(pictures.correct_gamma_table(levels), exact)
    assert np.array_equal(pictures.correct_gamma_vectorize(levels), exact)


def test_what_is_no_picture_is_refused_in_one_line(pixels: pictures.Pixels) -> None:
    data = pictures.encode(pixels, 7)
    with pytest.raises(InputError, match="not a picture of input_pipeline"):
        pictures.decode(b"\x89PNG" + data[4:])
    with pytest.raises(InputError, match="not a picture of input_pipeline"):
        pictures.decode(data[:5])
    with pytest.raises(InputError, match=r"a picture is damaged .*; run the program again"):
        pictures.decode(data[:-20])
    wrong = data[:6] + (71).to_bytes(2, "little") + data[8:]
    with pytest.raises(InputError, match="has 15552 bytes of pixels, not 15336"):
        pictures.decode(wrong)


def test_same_seed_same_files(tmp_path: Path, paths: list[Path]) -> None:
    again = files.write_pictures(tmp_path, seed=3, count=20)
    assert [path.name for path in again] == [path.name for path in paths]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(again, paths, strict=True))
    assert len({path.read_bytes() for path in paths}) == 20
    (tmp_path / "other").mkdir()
    other = files.write_pictures(tmp_path / "other", seed=4, count=1)
    assert other[0].read_bytes() != paths[0].read_bytes()


@pytest.mark.parametrize("cold", [False, True])
def test_all_ways_of_reading_give_the_file(paths: list[Path], cold: bool) -> None:
    data = paths[0].read_bytes()
    assert files.read_whole(paths[0], cold=cold) == data
    for piece in (1 << 20, 256, 999):
        assert files.read_in_pieces(paths[0], piece, cold=cold) == data


def test_small_reads_are_as_many_as_pieces(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    read = os.read

    def counted(fd: int, size: int) -> bytes:
        sizes.append(size)
        return read(fd, size)

    monkeypatch.setattr(os, "read", counted)
    files.read_in_pieces(paths[0], 256)
    assert len(sizes) == -(-paths[0].stat().st_size // 256) + 1 and set(sizes) == {256}
    sizes.clear()
    files.read_whole(paths[0])
    assert len(sizes) == 1


def test_notes_reach_the_log_one_a_picture_under_the_lock(tmp_path: Path, paths: list[Path]) -> None:
    log = tmp_path / "pictures.log"
    reader = files.Reader({"log"}, 256, 1.0, log)
    for path in paths[:3]:
        reader.read(path)
    lines = log.read_text().splitlines()
    assert [line.split()[0] for line in lines] == [path.name for path in paths[:3]]
    assert log.with_suffix(".last").read_text().splitlines() == lines[-1:]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pictures.last", "pictures.lock", "pictures.log"]
    with files.locked(log.with_suffix(".lock")):
        waiting = threading.Thread(target=reader.read, args=(paths[3],), daemon=True)
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive() and len(log.read_text().splitlines()) == 3
    waiting.join(600)
    assert len(log.read_text().splitlines()) == 4


def test_turns_keep_the_rate() -> None:
    due, times = 0.0, []
    for _ in range(6):
        due = files.wait_for_turn(due, 100.0)
        times.append(time.monotonic())
    assert times[-1] - times[0] >= 0.04, "at most one turn is caught up"
    now = 50.0
    assert files.wait_for_turn(7.0, 100.0, lambda: now) == pytest.approx(50.0), "no burst after a pause"


def test_folder_is_gone_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), files.temporary_folder(tmp_path) as folder:
        files.write_pictures(folder, 1, 2)
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: signal.SIG_DFL)  # else the handler stays
    with (
        pytest.raises(LabError, match="No such file or directory; check the path"),
        files.temporary_folder(tmp_path / "none"),
    ):
        pass
    with pytest.raises(LabError, match="none: no such folder; make it, or leave out --folder"):
        program.main(["--device", "cpu", "--folder", str(tmp_path / "none")])


def test_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LabError, match=r"00000\.labp: No space left on device; free some space"):
        program.main([*SMALL, "--folder", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_interrupted_program_leaves_no_files_and_no_workers(tmp_path: Path, number: int) -> None:
    argv = [sys.executable, "-m", "labcode.workloads.input_pipeline", *SMALL, "--variant", "shared_log"]
    argv += ["--steps", "2000", "--workers", "1", "--folder", str(tmp_path)]
    process = subprocess.Popen(
        argv, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 600
        while not list(tmp_path.glob("*/pictures.last")) and time.monotonic() < deadline:
            time.sleep(0.05)  # until a worker is at work
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "input_pipeline: interrupted" in said.splitlines() and "KeyboardInterrupt" not in said
    assert not list(tmp_path.iterdir())


def test_plan_does_not_depend_on_how_many_batches_follow() -> None:
    short, long = feed.make_plan(5, 8, 3, 60), feed.make_plan(5, 8, 9, 60)
    for name in ("files", "top", "left", "mirrored", "contrast"):
        assert np.array_equal(getattr(short, name), getattr(long, name)[:24])
    assert not np.array_equal(short.files, feed.make_plan(6, 8, 3, 60).files)
    assert list(short.batch_places())[1] == list(range(8, 16))


@pytest.mark.parametrize(
    "setup",
    [
        feed.Setup(slow=frozenset({"decode", "gamma", "equalize", "pieces", "cold"})),
        feed.Setup(workers=2, ahead=3, persistent=True, slow=frozenset({"log", "throttle"}), rate_per_s=5000),
    ],
    ids=["in turn", "workers"],
)
def test_every_feed_gives_the_same_batches(tmp_path: Path, paths: list[Path], setup: feed.Setup) -> None:
    plan = feed.make_plan(2, 6, 5, len(paths))
    plain = list(feed.make_loader(torch, paths[0].parent, plan, feed.Setup(), CPU, tmp_path / "a.log"))
    loader = feed.make_loader(torch, paths[0].parent, plan, setup, CPU, tmp_path / "b.log")
    batches = list(loader)
    assert len(batches) == len(plain) == 5
    for (inputs, labels, seconds), (expected, expected_labels, _) in zip(batches, plain, strict=True):
        assert inputs.dtype == torch.float32 and inputs.shape == (6, 3, 64, 64)
        assert torch.equal(inputs, expected) and torch.equal(labels, expected_labels)
        assert seconds.shape == (6, 3) and (seconds > 0).all()
    if setup.workers:
        assert len((tmp_path / "b.log").read_text().splitlines()) == 30
        assert loader.multiprocessing_context.get_start_method() == "spawn"


def test_what_a_worker_is_sent_fits_into_a_pipe_and_is_the_same(tmp_path: Path) -> None:
    plan = feed.make_plan(2, 256, 100, 5000)
    loader = feed.make_loader(torch, tmp_path, plan, feed.Setup(workers=1), CPU, tmp_path / "a.log")
    sent = pickle.dumps(loader.dataset)
    assert len(sent) < 16384
    received = pickle.loads(sent)
    for name in ("files", "top", "left", "mirrored", "contrast"):
        assert np.array_equal(getattr(received.plan, name), getattr(plan, name))


def test_what_a_worker_meets_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "00000.labp").write_bytes(b"nothing of the kind")
    plan = feed.make_plan(2, 2, 2, 1)
    for setup in (feed.Setup(), feed.Setup(workers=1)):
        loader = feed.make_loader(torch, tmp_path, plan, setup, CPU, tmp_path / "log")
        with pytest.raises(InputError) as caught:
            program.next_batch(iter(loader))
        assert str(caught.value).startswith("not a picture of input_pipeline; the files are made")


def test_worker_that_dies_is_told_in_one_line() -> None:
    class Died:
        def __next__(self) -> object:
            raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error.\nmore")

    with pytest.raises(LabError, match=r"pid 7.*Bus error\.; fewer --workers and a smaller --batch"):
        program.next_batch(Died())

    class Other:
        def __next__(self) -> object:
            raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        program.next_batch(Other())


def run(tmp_path: Path, *flags: str) -> dict[str, object]:
    record = recorded(program, tmp_path, *SMALL, "--folder", str(tmp_path), *flags)
    (tmp_path / "record.json").unlink()
    assert not list(tmp_path.iterdir()), "the pictures are gone"
    assert isinstance(record, dict)
    return record


def test_slow_ways_of_the_loop_give_the_same_losses() -> None:
    memory = Path("/dev/shm")  # on a disk each note that is written down at once takes milliseconds
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        slow_ways = ",".join(way for way in SLOW_WAYS if way != "cold")
        fast = run(Path(folder), "--slow", "none")
        slow = run(Path(folder), "--slow", slow_ways, "--rate", "5000")
    assert fast["results"]["losses"] == slow["results"]["losses"]  # type: ignore[index]
    assert set(fast["checks"]) == {"losses_match_plain_loop", "loss_falls"}  # type: ignore[call-overload]


def test_record_of_a_variant_with_workers(tmp_path: Path) -> None:
    record = run(tmp_path, "--variant", "pinned", "--workers", "1", "--slow", "equalize")
    results, parameters = record["results"], record["parameters"]
    assert isinstance(results, dict) and isinstance(parameters, dict)
    assert parameters["workers"] == 1 and parameters["prefetch_factor"] == 2
    assert parameters["pin_memory"] is True and parameters["slow"] == ["equalize"]
    assert "folder" not in parameters
    assert len(results["step_host_ms"]) == len(results["data_wait_ms"]) == len(results["copy_ms"]) == 4
    assert len(results["losses"]) == 28
    assert results["images_per_s"] == pytest.approx(1e3 * 12 * 4 / results["total_ms"], abs=0.06)  # rounded
    assert 0 < results["data_wait_share"] < 1
    assert min(results[f"{stage}_us"] for stage in feed.STAGES) > 0
    assert results["first_batch_s"] > 0


def test_variants_say_what_they_are() -> None:
    assert VARIANTS["baseline"].workers == 0 and not VARIANTS["baseline"].pin
    assert replace(VARIANTS["pinned"], pin=False) == VARIANTS["workers"]
    assert not VARIANTS["improved"].slow and VARIANTS["improved"].persistent
    assert all(setup.slow <= set(SLOW_WAYS) for setup in VARIANTS.values())


def test_memory_that_keeps_its_files_fails_the_check(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "comes_from_disk", lambda path: False)
    check = program.check_cold(paths)
    assert not check.passed and "choose another place by --folder" in check.detail
    monkeypatch.setattr(program, "comes_from_disk", lambda path: True)
    assert program.check_cold(paths).passed


def test_files_in_memory_do_not_come_from_the_disk() -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("no file system in memory here")
    with files.temporary_folder(Path("/dev/shm")) as folder:
        path = files.write_pictures(folder, 1, 1)[0]
        assert not files.comes_from_disk(path)


def outcome(*losses: float) -> Outcome:
    return Outcome(list(losses), 0.1, 1.0, [1.0], [1.0], [1.0], [1.0], {})


def test_losses_that_differ_or_rise_fail_the_check() -> None:
    plain = outcome(2.0, 1.0)
    assert all(check.passed for check in program.check(outcome(2.0, 1.00001), plain).values())
    assert not program.check(outcome(2.0, 1.01), plain)["losses_match_plain_loop"].passed
    assert not program.check(outcome(2.0, float("nan")), plain)["losses_match_plain_loop"].passed
    assert not program.check(outcome(2.0, 1.99), plain)["loss_falls"].passed


def test_unknown_way_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(["--device", "cpu", "--slow", "decode,luck"])
    assert "luck: no such way (decode, gamma" in capsys.readouterr().err


@pytest.mark.gpu
def test_improved_feed_is_faster_on_the_gpu_and_pinned_copies_do_not_wait(tmp_path: Path) -> None:
    found = {}
    for variant in ("baseline", "improved"):
        path = tmp_path / f"{variant}.json"
        assert program.main(["--variant", variant, "--json", str(path)]) == 0
        found[variant] = json.loads(path.read_text())["results"]
    assert found["improved"]["images_per_s"] > 3 * found["baseline"]["images_per_s"]
    assert found["improved"]["data_wait_share"] < 0.3 < found["baseline"]["data_wait_share"]
