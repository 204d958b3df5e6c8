"""What a step of each family of transformers costs: models of one size with weights drawn at random.

    python benchmarks/families.py TRANSFORMER --out FAMILIES
    longtail compare DATA bert=dpr:encoder=FAMILIES/bert modernbert=dpr:encoder=FAMILIES/modernbert ...

It writes a folder for each family, as long, wide and deep as a given BERT, with the tokeniser of that: so their times
and memory can be compared where no weights can be had, and nothing is said of how good they are with weights that were
trained. `multilingual` is a BERT with the 250,002 words of XLM-R.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

_SHARED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")


def main() -> None:
    """Write the models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transformer", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    like, tokenizer = AutoConfig.from_pretrained(given.transformer), AutoTokenizer.from_pretrained(given.transformer)
    sizes = {name: getattr(like, name) for name in (*_SHARED, "vocab_size")}
    pad, first, last = tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id
    roles = {"pad": pad, "bos": first, "cls": first, "eos": last, "sep": last}
    special = {f"{role}_token_id": token for role, token in roles.items()}
    heads = like.num_attention_heads
    families: dict[str, dict[str, Any]] = {  # what each is told beside these
        "bert": {},
        "mpnet": {},
        "modernbert": {},
        "qwen3": {"num_key_value_heads": heads, "head_dim": like.hidden_size // heads},
        "multilingual": {"model_type": "bert", "vocab_size": 250_002},
    }
    for name, more in families.items():
        config = AutoConfig.for_model(**{"model_type": name, **sizes, **special, **more})
        torch.manual_seed(0)
        model = AutoModel.from_config(config)
        folder = given.out / name
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        print(f"{folder}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f} million weights")


if __name__ == "__main__":
    main()
