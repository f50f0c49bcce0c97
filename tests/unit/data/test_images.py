"""Images: every form in, the same samples out on any layout, and exact errors before a rank starts."""

import gzip
import sys

import numpy as np
import pytest
from PIL import Image

from emberward.data import (
    Augment,
    Decoding,
    Manifest,
    open_image_eval,
    open_image_train,
    prepare_image_sets,
    read_manifest,
    require_form,
    require_same_data,
    step_indices,
    verify_manifest,
)
from emberward.data._augment import augmented, partner_of, share_of
from emberward.draws import key_of
from emberward.findings import ConfigError

RNG = np.random.Generator(np.random.PCG64(7))
PIXELS = RNG.integers(0, 256, (120, 6, 6, 3), dtype=np.uint8)
LABELS = np.arange(120) % 4


def prepared(path, cache, *, held_out=0.1, evaluation=(), **decoding) -> Manifest:
    return prepare_image_sets(
        train=[(str(path), 1.0, None)],
        evaluation=[(str(each), 1.0, None) for each in evaluation],
        decoding=Decoding(**decoding),
        held_out=held_out,
        cache=cache,
        progress=None,
    )


def whole(manifest: Manifest, num_classes: int | None = None):
    """All images and labels of the training side, in file order, as they are fed without augmentation."""
    train = open_image_train(
        manifest, seed=1, augment=Augment(), num_classes=num_classes or manifest.images.num_classes
    )
    num = manifest.train[0].num_documents
    batch = train.batch(range(num))
    order = np.argsort([origin.window for origin in train.origins(range(num))])
    pixels = np.rint((batch.images[order] + 1) * 127.5).astype(np.uint8).transpose(0, 2, 3, 1)
    return pixels, batch.targets[order].argmax(1)


def as_npz(folder):
    np.savez(folder / "set.npz", images=PIXELS, labels=LABELS)
    return folder / "set.npz"


def as_npy(folder):
    (folder / "arrays").mkdir()
    np.save(folder / "arrays/images.npy", PIXELS)
    np.save(folder / "arrays/labels.npy", LABELS.astype(np.uint8))
    return folder / "arrays"


def as_folders(folder):
    for number, (pixels, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        (folder / f"pngs/class{label}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"pngs/class{label}/{number:03d}.png")
    return folder / "pngs"


def as_idx(folder, suffix=""):
    head = np.array([0x803, 120, 6, 6], ">u4").tobytes()
    open_ = gzip.open if suffix else open
    with open_(folder / f"t10k-images-idx3-ubyte{suffix}", "wb") as out:
        out.write(head + PIXELS[..., 0].tobytes())
    with open_(folder / f"t10k-labels-idx1-ubyte{suffix}", "wb") as out:
        out.write(np.array([0x801, 120], ">u4").tobytes() + LABELS.astype(np.uint8).tobytes())
    return folder / f"t10k-images-idx3-ubyte{suffix}"


def as_idx_gz(folder):
    return as_idx(folder, ".gz")


@pytest.mark.parametrize("form", [as_npz, as_npy, as_folders, as_idx, as_idx_gz])
def test_every_form_gives_its_own_pixels_and_labels(tmp_path, form):
    manifest = prepared(form(tmp_path), tmp_path / "cache", held_out=0)
    pixels, labels = whole(manifest)
    order = np.argsort(LABELS, kind="stable") if form is as_folders else np.arange(120)
    channels = slice(0, 1) if form in (as_idx, as_idx_gz) else slice(0, 3)
    assert np.array_equal(pixels, PIXELS[order][..., channels])
    assert np.array_equal(labels, LABELS[order])
    verify_manifest(read_manifest(manifest.path))
    assert read_manifest(manifest.path) == manifest


@pytest.mark.parametrize(("name", "num_labels"), [("data_batch_1.bin", 1), ("train.bin", 2)])
def test_cifar_files_are_read_with_their_fine_label(tmp_path, name, num_labels):
    pixels = RNG.integers(0, 256, (20, 3, 32, 32), dtype=np.uint8)
    labels = np.stack([np.full(20, 9), np.arange(20) % 5], 1)[:, -num_labels:].astype(np.uint8)
    folder = tmp_path / "cifar"
    folder.mkdir()
    (folder / name).write_bytes(np.concatenate([labels, pixels.reshape(20, -1)], 1).tobytes())
    found, classes = whole(prepared(folder, tmp_path / "cache", held_out=0))
    assert np.array_equal(found, pixels.transpose(0, 2, 3, 1))
    assert np.array_equal(classes, labels[:, -1])


def test_the_digits_of_scikit_learn_are_at_hand(tmp_path):
    manifest = prepared("digits", tmp_path)
    assert str(manifest.images) == "8 x 8 pixels, 1 channel" and manifest.images.num_classes == 10
    train, held = manifest.train[0].num_documents, manifest.evaluation[0].num_documents
    assert train + held == 1797 and 0.08 * 1797 < held < 0.25 * 1797


def test_a_part_of_each_class_is_held_out_and_none_is_on_both_sides(tmp_path):
    manifest = prepared(as_npz(tmp_path), tmp_path / "cache")
    pixels, labels = whole(manifest)
    held = open_image_eval(manifest, max_samples=1000, num_classes=4)["set"]
    batch = held.batch([*range(held.num_samples), None])
    assert len(pixels) + held.num_samples == 120
    assert set(batch.targets[:-1].argmax(1).tolist()) == set(labels.tolist()) == {0, 1, 2, 3}
    assert batch.mask.tolist() == [1.0] * held.num_samples + [0.0] and not batch.targets[-1].any()
    trained = {image.tobytes() for image in pixels}
    fed = np.rint((batch.images[:-1] + 1) * 127.5).astype(np.uint8).transpose(0, 2, 3, 1)
    assert not any(image.tobytes() in trained for image in fed)


AUGMENT = Augment(crop=1, flip=True, mixup=0.8)


def test_augmented_samples_are_the_same_on_every_layout_and_after_a_resume(tmp_path):
    manifest = prepared(as_npz(tmp_path), tmp_path / "cache")

    def step(consumed, micro_batch, dp):
        """All samples of a step of 24, by number, as the ranks of this layout are fed them."""
        fed = {}
        for rank in range(dp):
            train = open_image_train(manifest, seed=5, augment=AUGMENT, num_classes=4)
            for indices in step_indices(
                consumed_samples=consumed, global_batch=24, micro_batch=micro_batch, dp=dp, dp_rank=rank
            ):
                batch = train.batch(indices)
                fed |= {n: (batch.images[i], batch.targets[i]) for i, n in enumerate(batch.samples)}
        return fed

    for consumed in (0, 216):
        expected = step(consumed, 24, 1)
        for micro_batch, dp in ((4, 3), (2, 4), (12, 2)):
            found = step(consumed, micro_batch, dp)
            assert found.keys() == expected.keys()
            assert all(np.array_equal(a, b) for n in found for a, b in zip(found[n], expected[n], strict=True))


def test_each_epoch_augments_anew_and_keeps_the_shares_of_the_classes(tmp_path):
    manifest = prepared(as_npz(tmp_path), tmp_path / "cache", held_out=0)
    train = open_image_train(manifest, seed=5, augment=AUGMENT, num_classes=4)
    first, second = (
        train.batch(sorted(range(start, start + 120), key=lambda n: train.origins([n])[0].window)) for start in (0, 120)
    )
    assert not np.array_equal(first.images, second.images)
    assert np.allclose(first.targets.sum(1), 1)
    assert ((first.targets > 0).sum(1) == 2).any(), "some images are blended with one of another class"
    assert np.abs(first.images).max() <= 1 + 1e-6


def test_what_is_done_to_an_image_is_what_is_said():
    image = np.arange(25, dtype=np.uint8).reshape(5, 5, 1)
    assert np.array_equal(augmented(image, Augment(), 3), image)
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)))
    crops = {padded[t : t + 5, x : x + 5].tobytes(): (t, x) for t in range(5) for x in range(5)}
    moved = [crops[augmented(image, Augment(crop=2), key_of(n)).tobytes()] for n in range(500)]
    assert set(moved) == set(crops.values())
    flips = [not np.array_equal(augmented(image, Augment(flip=True), key_of(n)), image) for n in range(2000)]
    assert 0.45 < np.mean(flips) < 0.55
    partners = [partner_of(key_of(n), 7) for n in range(2000)]
    assert set(partners) == set(range(7))
    shares = np.array([share_of(key_of(n), 0.8) for n in range(4000)])
    assert abs(shares.mean() - 0.5) < 0.02 and abs(shares.var() - 0.25 / 2.6) < 0.005  # Beta(a, a): 1 / (4 (2a + 1))


def message(call) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    assert caught.value.code == "D101"
    return f"{caught.value.what} | {caught.value.where} | {caught.value.expected} | {caught.value.found}"


def test_images_that_differ_in_size_or_mode_are_refused_by_name_and_can_be_made_alike(tmp_path):
    folder = as_folders(tmp_path)
    Image.fromarray(PIXELS[0][:4]).save(folder / "class3/odd.png")
    first = folder / "class0/000.png"
    assert message(lambda: prepared(folder, tmp_path / "cache")) == (
        f"the images differ in size | {folder}/class3/odd.png | 6 x 6 pixels, as {first} | 4 x 6 pixels"
    )
    assert prepared(folder, tmp_path / "cache", side=6).images.height == 6
    (folder / "class3/odd.png").unlink()
    Image.fromarray(PIXELS[0][..., 0]).save(folder / "class3/odd.png")
    assert message(lambda: prepared(folder, tmp_path / "cache")) == (
        f"the images differ in mode | {folder}/class3/odd.png | mode RGB, as {first} | mode L"
    )
    Image.fromarray(PIXELS[0]).convert("P").save(folder / "class3/odd.png")
    assert message(lambda: prepared(folder, tmp_path / "cache")) == (
        f"an image is of another mode | {folder}/class3/odd.png | L or RGB, all alike | P"
    )
    assert prepared(folder, tmp_path / "cache", mode="RGB").images.channels == 3


def test_truncated_files_are_refused_by_name(tmp_path):
    idx = as_idx(tmp_path)
    idx.write_bytes(idx.read_bytes()[:-1])
    assert message(lambda: prepared(idx, tmp_path / "cache")) == (
        f"the IDX file is damaged | {idx} | 4,336 bytes for 120 items | 4,335 bytes"
    )
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073 * 2 - 5))
    assert message(lambda: prepared(tmp_path / "test_batch.bin", tmp_path / "cache")) == (
        f"the CIFAR file is damaged | {tmp_path}/test_batch.bin | a multiple of 3,073 bytes | 6,141 bytes"
    )
    npz = as_npz(tmp_path)
    npz.write_bytes(npz.read_bytes()[:-100])
    assert message(lambda: prepared(npz, tmp_path / "cache")).startswith(f"the arrays cannot be read | {npz} | ")
    folder = as_folders(tmp_path)
    Image.fromarray(np.kron(PIXELS[0], np.ones((20, 20, 1), np.uint8))).save(folder / "class1/x.jpg")
    (folder / "class1/x.jpg").write_bytes((folder / "class1/x.jpg").read_bytes()[:-800])
    assert message(lambda: prepared(folder, tmp_path / "cache", side=6)).startswith(
        f"an image file is damaged | {folder}/class1/x.jpg | "
    )


def test_labels_and_sizes_that_the_model_lacks_are_refused_before_a_rank_starts(tmp_path):
    manifest = prepared(as_npz(tmp_path), tmp_path / "cache")
    sizes = {"height": 6, "width": 6, "channels": 3}
    require_form(manifest, **sizes, num_classes=4)
    require_form(manifest, **sizes, num_classes=9)
    assert message(lambda: require_form(manifest, **sizes, num_classes=3)) == (
        f"a label is out of range | {tmp_path}/set.npz | class numbers below model.num_classes=3 | 3"
    )
    assert message(lambda: require_form(manifest, height=8, width=8, channels=1, num_classes=4)) == (
        f"the images do not fit the model | {tmp_path}/set.npz | 8 x 8 pixels, 1 channel | 6 x 6 pixels, 3 channels"
    )
    np.savez(tmp_path / "low.npz", images=PIXELS, labels=np.where(np.arange(len(LABELS)) == 7, -1, LABELS))
    assert message(lambda: prepared(tmp_path / "low.npz", tmp_path / "cache")) == (
        f"a label is out of range | {tmp_path}/low.npz, image 7 | class numbers from 0 on | -1"
    )
    np.savez(tmp_path / "float.npz", images=PIXELS / 255, labels=LABELS)
    assert message(lambda: prepared(tmp_path / "float.npz", tmp_path / "cache")) == (
        f"the images are of another form | {tmp_path}/float.npz | uint8 [N, H, W] or [N, H, W, 3] | "
        "float64 [120, 6, 6, 3]"
    )


def test_other_images_never_mix_into_a_run_and_the_same_ones_at_another_place_do(tmp_path):
    before = prepared(as_npz(tmp_path), tmp_path / "cache")
    np.savez(tmp_path / "other.npz", images=PIXELS, labels=LABELS)
    require_same_data(before=before, now=prepared(tmp_path / "other.npz", tmp_path / "cache2"))
    np.savez(tmp_path / "changed.npz", images=255 - PIXELS, labels=LABELS)
    with pytest.raises(ConfigError, match="source set is not what it was"):
        require_same_data(before=before, now=prepared(tmp_path / "changed.npz", tmp_path / "cache"))


def test_without_pillow_arrays_are_read_and_image_files_say_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert prepared(as_npz(tmp_path), tmp_path / "cache").images.channels == 3
    (tmp_path / "pngs/a").mkdir(parents=True)
    (tmp_path / "pngs/a/1.png").write_bytes(b"")
    assert message(lambda: prepared(tmp_path / "pngs", tmp_path / "cache")).startswith(
        f"reading image files needs Pillow | {tmp_path}/pngs | the package Pillow | "
    )


def test_a_path_without_images_says_what_could_stand_there(tmp_path):
    assert message(lambda: prepared(tmp_path / "nowhere", tmp_path)) == (
        f"there are no images at this path | {tmp_path}/nowhere | a file, a folder, or digits or mnist-5k | "
        f"nothing at {tmp_path}/nowhere"
    )
    (tmp_path / "empty/a").mkdir(parents=True)
    assert message(lambda: prepared(tmp_path / "empty", tmp_path)) == (
        f"the folder holds no images by class | {tmp_path}/empty | a folder for each class, with image files below it, "
        "or images.npy and labels.npy | 1 folders without one"
    )
