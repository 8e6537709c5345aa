"""The key file: made once, whole, for its owner alone; and what is derived from it."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tacit.core.errors import InputError
from tacit.ledger.signing_keys import is_signed, key_id
from tacit.releases.keys import Keys, make_keys, open_keys


def test_the_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        first = open_keys(tmp_path / "a.key")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
    assert open_keys(tmp_path / "a.key") == first
    assert open_keys(tmp_path / "b.key") != first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.key", "b.key"]
    assert first.signing.hex() not in repr(first)


def test_a_missing_file_is_not_replaced_unless_allowed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="restore it from your backup"):
        open_keys(tmp_path / "a.key", make=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot use the key file"):
        open_keys(tmp_path / "file" / "a.key")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    open_keys(tmp_path / "a.key")
    (tmp_path / "a.key").chmod(mode)
    with pytest.raises(InputError, match="others may read"):
        open_keys(tmp_path / "a.key")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    open_keys(path)
    good = json.loads(path.read_text())
    for bad in ("", "{}", "[]", json.dumps(good | {"version": 2}), json.dumps(good | {"signing": "00"}),
                json.dumps(good | {"groups": "zz"})):  # fmt: skip
        path.write_text(bad)
        with pytest.raises(InputError, match="is not a key file"):
            open_keys(path)


def test_several_at_once_get_the_same_keys(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: open_keys(tmp_path / "a.key"), range(16)))
    assert len({keys.signing for keys in found}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.key"]


def test_signatures_and_secrets() -> None:
    keys, others = make_keys(), make_keys()
    signature = keys.sign(b"words")
    assert is_signed(b"words", signature, keys.public_key)
    assert not is_signed(b"wordS", signature, keys.public_key)
    assert not is_signed(b"words", signature, others.public_key)
    assert not is_signed(b"words", "00" + signature[2:], keys.public_key)
    assert not is_signed(b"words", "no hex", keys.public_key)
    assert key_id(keys.public_key) != key_id(others.public_key)
    assert key_id(f" {keys.public_key.removeprefix('ed25519:')}\n") == key_id(keys.public_key)
    assert keys.group_secret("patients") == keys.group_secret("Patients")
    assert len({keys.group_secret("a"), keys.group_secret("b"), others.group_secret("a")}) == 3
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        key_id("ed25519:00")


def test_the_check_value_tells_the_group_secret_from_others_and_does_not_tell_it() -> None:
    one, other = make_keys(), make_keys()
    assert one.groups_check == Keys(other.signing, one.groups).groups_check
    assert one.groups_check != Keys(one.signing, other.groups).groups_check
    assert one.groups.hex() not in one.groups_check
    assert one.groups_check not in (one.veil(""), one.group_secret("patients").hex())
