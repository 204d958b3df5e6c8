"""Whether a page's tags are closed as they should be, and what is in it."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "wbr"}


class Whole(HTMLParser):
    """Fails on a tag that is closed in the wrong place, and collects texts and attributes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.attributes = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"style", "script"}:
            self.texts.append(data)
