# SPDX-License-Identifier: BSD-3-Clause
"""Makes train.jsonl and valid.jsonl, some paragraphs of English prose a line, from HTML pages.

usage: make_text.py HTML_FOLDER DIRECTORY
"""
import glob
import html.parser
import json
import os
import sys

TRAIN_BYTES = 300_000
VALID_BYTES = 40_000
DOCUMENT_BYTES = 1_500  # a document ends with the paragraph that passes this


class Paragraphs(html.parser.HTMLParser):
    """Collects the paragraphs of a page's body."""

    BLOCKS = {"body", "h1", "h2", "h3", "p", "li", "blockquote", "div"}

    def __init__(self):
        super().__init__()
        self.paragraphs = []
        self.words = []
        self.inside = False

    def end_paragraph(self):
        text = " ".join("".join(self.words).split())
        self.words = []
        if text:
            self.paragraphs.append(text)

    def handle_starttag(self, tag, attrs):
        self.inside = self.inside or tag == "body"
        if tag in self.BLOCKS:
            self.end_paragraph()

    def handle_endtag(self, tag):
        if tag in self.BLOCKS:
            self.end_paragraph()

    def handle_data(self, data):
        if self.inside:
            self.words.append(data)


def documents(pages):
    for page in pages:
        parser = Paragraphs()
        with open(page, encoding="utf-8", errors="replace") as file:
            parser.feed(file.read())
        parser.close()
        text = ""
        for paragraph in parser.paragraphs:
            text += ("\n\n" if text else "") + paragraph
            if len(text) >= DOCUMENT_BYTES:
                yield text
                text = ""
        if text:
            yield text


def write(path, texts, limit):
    size = 0
    with open(path, "w", encoding="utf-8") as file:
        for text in texts:
            size += file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            if size >= limit:
                break
    if size < limit:
        sys.exit(f"{path}: only {size} characters of text")
    print(f"{path}: {size:,} characters")


pages = sorted(glob.glob(os.path.join(sys.argv[1], "sec*.html")))
os.makedirs(sys.argv[2], exist_ok=True)
# Held-out text comes from pages of its own.
held_out = pages[4::5]
trained = [page for page in pages if page not in held_out]
write(os.path.join(sys.argv[2], "train.jsonl"), documents(trained), TRAIN_BYTES)
write(os.path.join(sys.argv[2], "valid.jsonl"), documents(held_out), VALID_BYTES)
