"""Writes the fp32 embedding of a sentence by all-MiniLM-L6-v2 on x86 with torch, beside this file.

python tests/aarch64/minilm_x86.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")


def main() -> None:
    """Entry point."""
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    import cpuaccel
    from examples.minilm import minilm
    from examples.minilm.sentences import SENTENCES

    with cpuaccel.enabled(False):
        vectors = minilm.MODES[0].runner(minilm.load(), minilm.tokenize(SENTENCES[:1]))()
    FILE.write_text(json.dumps([round(value, 7) for value in vectors[0].tolist()]) + "\n")


if __name__ == "__main__":
    main()
