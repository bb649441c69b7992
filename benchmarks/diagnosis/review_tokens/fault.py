"""Sentiment of reviews: bag of words, trained on text that is tokenized as it comes."""

import argparse
import json
import os
import random
import re
import time

import torch
from torch import nn

WORD = re.compile(r"[a-z']+")


def make_reviews(count, words, seed=0):
    rng = random.Random(seed)
    lexicon = ["w" + "".join(rng.choice("abcdefghij") for _ in range(5)) for _ in range(3000)]
    return [" ".join(rng.choices(lexicon, k=words)) for _ in range(count)], lexicon


def tokenize(texts, vocabulary, length):
    rows = []
    for text in texts:
        ids = [vocabulary.get(word, 0) for word in WORD.findall(text.lower())][:length]
        rows.append(ids + [0] * (length - len(ids)))
    return torch.tensor(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--width", type=int, default=768)
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    batch, length = (128, 192) if cuda else (4, 16)
    width = args.width if cuda else 32
    steps = int(os.environ.get("STEPS", 20))
    warmup = min(5, steps - 1)
    per_epoch = max(1, steps // args.epochs)
    torch.manual_seed(0)
    reviews, lexicon = make_reviews(batch * per_epoch, length)
    vocabulary = {word: i + 1 for i, word in enumerate(lexicon)}
    model = nn.Sequential(
        nn.Embedding(len(lexicon) + 1, width),
        nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0),
        nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0),
        nn.Linear(width, 1),
    ).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)
    label = torch.randint(0, 2, (batch,), device=device).float()
    # reviews of one epoch, in batches
    batches = [reviews[i : i + batch] for i in range(0, len(reviews), batch)]
    for step in range(steps):
        if step == warmup:
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
        ids = tokenize(batches[step % per_epoch], vocabulary, length).to(device)
        with torch.autocast(device, torch.bfloat16):
            score = model(ids).mean((1, 2))
            loss = nn.functional.binary_cross_entropy_with_logits(score, label)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    took = (time.perf_counter() - start) / (steps - warmup)
    print(json.dumps({"seconds_per_iteration": took, "loss": loss.item()}))


main()
