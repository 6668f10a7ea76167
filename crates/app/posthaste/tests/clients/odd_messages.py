# Messages that real mail has and grammars do not like: comments in addresses, encoded words, dates of every age,
# delimiters of every shape, NUL, parts of reports, duplicate fields, odd names of charsets and encodings.
# `differential.py` runs behind this text. An oddity is a text, alone or with the names of what is not compared for a
# message that has it. Each such name has a row of `docs/differences.md`.

NO_ADDRESS, NO_STRUCTURE, NO_DATE, NO_WORDS = {"ENVELOPE", "addresses"}, {"BODYSTRUCTURE"}, {"sent"}, {"words"}
NO_PARTS = {"BODYSTRUCTURE", "BODY", "words"}
# 20: whose the CRLF before a delimiter is.
ENDS = {"ends"}

ODD_ADDRESSES = [
    "Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>",
    "A Group(Some people)\r\n     :Chris Jones <c@(Chris's host.)public.example>,\r\n         joe@example.org,\r\n"
    "  John <jdoe@one.test> (my dear friend); (the end of the group)",
    "(Empty list)(start)Hidden recipients  :(nobody(that I know))  ;", "Mary Smith <@node.test,@x.test:mary@example.net>, jdoe@test   . example",
    "user (c)@ (c) domain.org", "a@b (Name \\(nick\\))", "test1@local>", "(comment) a@b", "a@b (=?utf-8?q?J=C3=BCrgen?=)",
    '"Joe Q. Public" <john.q.public@example.com>', "Joe Q. Public <john.q.public@example.com>", "<a@b.test>", '"quoted local"@x.test',
    '"quoted\\" local"@x.test', "undisclosed-recipients:;", "undisclosed-recipients: ;", "Ana <a@[192.0.2.1]>", "a.b.@x.test", ".a@x.test",
    "=?utf-8?q?J=C3=BCrgen?= =?utf-8?q?_Alt?= <j@x.test>", '"=?utf-8?q?J=C3=BCrgen?=" <j@x.test>', "Jürgen <j@x.test>", "ana@x.test (one) (two)",
    "", "  ", "(only a comment)", "Ana <a@b.test> (x)", '"Ana" "Alt" <a@x.test>', "Ana\tAlt  Neu <a@x.test>", "Ana <a@x.test>;", "Ana <A@X.TEST>",
    # 13: no address.
    ("Mary <mary@x.test>, , jdoe@x.test", NO_ADDRESS), ("a", NO_ADDRESS), ("Ana, Ben <a@x.test>", NO_ADDRESS), ("Ana <>", NO_ADDRESS), ("<>", NO_ADDRESS),
    ("@x.test", NO_ADDRESS), ("Ana <a@b.test>, Ben <b@c.test", NO_ADDRESS), ("a@x.test b@y.test", NO_ADDRESS), ("a@x.test.", NO_ADDRESS),
    ("g: a@x.test, h: b@y.test;, c@z.test", NO_ADDRESS), ("Ana <a@x.test, Ben <b@y.test>", NO_ADDRESS), ("Ana <a@x.test <b@y.test>, c@z.test", NO_ADDRESS),
    # 24: words of a name side by side.
    ('Ana"Alt"Neu <a@x.test>', NO_ADDRESS),
]
ODD_SUBJECTS = [
    "=?iso-2022-jp?B?GyRCJCIbKEI=?= =?iso-2022-jp?B?GyRCJCQbKEI=?=", "=?utf-8?B?w4Q=?= =?utf-8?B?cmdlcg==?=", "=?utf-8?B?w?= =?utf-8?B?4RyZ2Vy?=",
    "=?utf-8?Q?a_b?=\r\n =?utf-8?Q?_c?=", "=?utf-8?Q?a b?=", "=?utf-8?Q?a=?=", "x=?utf-8?Q?=C3=A4?=y", "=?iso-8859-1?q?=E4rger?= und =?koi8-r?B?8NLJ18XU?=",
    "=?utf-8?X?abc?=", "=?utf-8?Q??=", "Ärger", "", "a\r\n b\r\n c", "=?windows-1252?Q?=80_Euro?=", "=?utf-8?B?aGVsbG8=?=world", "=?UTF-8?b?aGVsbG8?=",
    "=?cp437?Q?=81ber?=", "=?gb2312?B?xOO6ww==?=", "=?utf-16?B?/v8AaAB1?=", "=?big5?B?p0GmbgAA?=", "=?euc-kr?B?vsiz58fPvLy/5A==?=", "=?shift_jis?B?k/qWew==?=",
    # 14: blanks of a field stay. 15: encoded words that are not quite.
    ("hello\t\tworld", {"ENVELOPE"} | NO_WORDS), ("=?us-ascii?Q?hello?=   =?us-ascii?Q?world?=", {"ENVELOPE"}), ("a\r\n\tb", {"ENVELOPE"} | NO_WORDS),
    ("=?utf-8*en?Q?=C3=A4?=", NO_WORDS), ("=?nosuch?Q?abc?=", NO_WORDS), ("=?utf-8?q?=C3?= =?utf-8?q?=A4rger?=", NO_WORDS),
]
ODD_DATES = [
    "20 Dec 1995 19:59 GMT", "Wed, 20 Dec 95 19:59:01 EST", "Wed, 20 Dec 1995 19:59:01", "20 Dec 1995 19:59", "20 Dec 49 12:00:00 Z",
    "Wed,20 Dec 1995 23:30:00 -0500", "Wed, 20 Dec 1995 23:30:00 (comment) +0000 (UTC)", "Wed, 2 Dec 1995 1:02:03 PDT", "20 dec 1995 10:00:00 A",
    "Mon, 20 Dec 1995 10:00:00 +0000", "Wed, 20 December 1995 10:00:00 +0000", "20 Dec 1995 10:00:00 MESZ", "20 Dec 1995 10:00:60 +0000",
    "20 Dec 1995 00:00:00 -0000", "Wed, 20 Dec 1995 19:59:01 +2500", "Wed, 20 Dec 1995 19:59:01 +0160", "Mar, 20 Dec 1995 10:00:00 +0000",
    "Wed, 20 Dec 1995 10.00.00 +0100", "Wed, 20 Dec 1995 10:00:00 GMT+0100", "Wed, 20 Dec 1995 10:00:00 +01:00",
    # 7: no date. 14: a field that begins with a folded line. 16: dates that are not quite.
    ("", NO_DATE), ("soon", NO_DATE), ("1995-12-20 19:59:01", NO_DATE), ("20-Dec-1995 10:00:00 +0000", NO_DATE), ("20 Dec 1995 1:2:3 +0100", NO_DATE),
    ("Wed, 20 Dec 1995 10:00:00+0100", NO_DATE), ("Wed, 20 Dec 1995 10:00:00.5 +0100", NO_DATE), ("Wednesday, 20 Dec 1995 10:00:00 +0000", NO_DATE),
    ("\r\n Wed, 20 Dec 1995 10:00:00 +0000", {"ENVELOPE"}), ("20 Dec 50 12:00:00 Z", NO_DATE), ("20 Dec 095 10:00:00 +0000", NO_DATE),
    ("Wed, 20 Dec 1995 24:00:00 +0000", NO_DATE), ("31 Nov 2020 10:00:00 +0000", NO_DATE), ("Wed Dec 20 19:59:01 1995", NO_DATE), ("20 Dec 1995", NO_DATE),
]
ODD_IDS = ["<a@x.test>", "a@x.test", "<a b@x.test>", "<a@x.test> (comment)", "", "<>", '<"quoted"@x.test>', "<a@x.test> <b@x.test>", "garbage <a@x.test>",
           ("\r\n <folded@x.test>", {"ENVELOPE"})]
ODD_FIELDS = ["no colon here", "X-Odd : blank before the colon", ": no name", "X-Long: " + "x" * 1200, "X-Empty:", "X-Nul: a\0b"]
# Bodies are text in UTF-8. 17: types that are none, multiparts without a boundary. 22: bytes that the charset has not.
ODD_TYPES = [
    "text/plain; charset", "text/plain;;", "text/plain; a=b; a=c", "TEXT/HTML; Charset=US-ASCII (comment)", "text / plain", "text/plain; charset=utf8",
    "text/plain; charset=cp437", "text/plain; charset=unknown-8bit", "text/rfc822-headers", "image/png", ("text/plain; charset=mac-roman", NO_WORDS),
    ("text/plain; charset=''", NO_WORDS),
    ("text/plain; name=a b.txt", NO_STRUCTURE), ('text/plain; name="a', NO_STRUCTURE), ("text", NO_PARTS), ("text/", NO_PARTS), ("/plain", NO_PARTS),
    ("", NO_PARTS), ("multipart/mixed", NO_PARTS), ('multipart/mixed; boundary=""', NO_PARTS), ("multipart/mixed; boundary=nowhere", NO_PARTS), ("text/plain; charset=us-ascii", NO_WORDS),
    ("text/plain; charset=8859-1", NO_WORDS),
]
# 18: encodings that are not quite.
ODD_ENCODINGS = [("8-bit", NO_PARTS), "x-uuencode", "binary", "utf-8", ("7 bit", NO_PARTS), ("quoted printable", NO_PARTS), ("BASE64 ", NO_WORDS), ("Base64;", NO_PARTS),
                 ("(c) base64", NO_WORDS), ("", NO_WORDS)]
ODD_DISPOSITIONS = ["inline; x", 'ATTACHMENT; FILENAME="\\"x\\""', "attachment;\r\n filename*0=\"a \";\r\n filename*1=b.txt", "inline (comment)",
                    ("", NO_STRUCTURE), (";", NO_STRUCTURE), ("attachment; filename=a b", NO_STRUCTURE)]
ODD_LANGUAGES = ["", "en", "en,", "de (German), en"]
ENCODED = [
    ("quoted-printable", "soft =\r\nbreak\r\n"), ("quoted-printable", "bad =XX =4\r\n"), ("quoted-printable", "blank  \r\n"), ("quoted-printable", "lower =c3=a4\r\n"),
    ("base64", "aGVs\r\nbG8=\r\n"), ("base64", "aGVsbG8\r\n"), ("base64", "=\r\n"),
    # 19: letters that are not of base64, and more of it behind its end.
    ("base64", "aGVs!bG8=\r\n", NO_WORDS), ("base64", "aGVsbG8=d29ybGQ=\r\n", NO_WORDS), ("base64", "aGVsbG8=\r\nd29ybGQ=\r\n", NO_WORDS),
]
# Types with their bodies. 6: a message in base64. 9: words in the header of a message within.
REPORTS = [
    ("message/delivery-status", "Reporting-MTA: dns; x.test\r\n\r\nFinal-Recipient: rfc822; a@x.test\r\nAction: failed\r\nStatus: 5.0.0 anchor\r\n"),
    ("message/disposition-notification", "Reporting-UA: anchor\r\nDisposition: manual-action; displayed\r\n"),
    ("message/feedback-report", "Feedback-Type: abuse\r\nUser-Agent: anchor/1\r\n"), ("text/rfc822-headers", "Subject: anchor\r\nFrom: a@x.test\r\n"),
    ('message/partial; number=1; total=2; id="x"', "Subject: inner anchor\r\n\r\nlorem\r\n"),
    ('message/external-body; access-type=URL; URL="http://x.test/"', "Content-Type: image/png\r\nContent-ID: <anchor@x.test>\r\n\r\n"),
    ("message/rfc822\r\nContent-Transfer-Encoding: base64", "U3ViamVjdDogYW5jaG9yDQoNCmFuY2hvcg0K\r\n", NO_PARTS),
    ("message/rfc822", "Subject: inner\r\nFrom: a@x.test\r\n", NO_WORDS | ENDS), ("message/rfc822", "Subject: inner\r\n\r\n", NO_WORDS | ENDS),
    ("message/rfc822\r\nContent-Transfer-Encoding: quoted-printable", "Subject: anch=6Fr\r\n\r\nanch=\r\nor\r\n", NO_PARTS),
    ("message/rfc822", "", NO_WORDS | ENDS), ("message/rfc822", "Subject: inner\r\n\r\nanchor\r\n", NO_WORDS),
    ("application/octet-stream;\r\n name*0*=utf-8''J%C3%BC;\r\n name*1=rgen;\r\n name*2*=%2Epdf", "x\r\n"), ("text/plain", "a\0b anchor\r\n"),
    # 25: a word with tags in it.
    ("text/html", "<p>hello <b>wor</b>ld</p>\r\n", NO_WORDS), ("text/html", "<p>price</p><p>ship&amp;c &nbsp;&#252;</p>\r\n"),
]

class Odd:
    """A message that grows, and what is not compared of it."""

    def __init__(self, r):
        self.r, self.skip, self.is_exact = r, set(), r.random() < 0.5

    def one(self, oddities):
        picked = self.r.choice(oddities)
        if isinstance(picked, str):
            return picked
        *texts, last = picked
        if isinstance(last, set):
            self.skip |= last
        else:
            texts.append(last)
        return texts[0] if len(texts) == 1 else texts

    def field(self, name, text):
        return f"{name}: {text}" if text or self.r.random() < 0.5 else f"{name}:"

    def leaf(self):
        """The header and the body of a part."""
        r, text = self.r, "\r\n".join(words(self.r) for _ in range(self.r.randint(1, 3))) + "\r\n"
        # 23: a phrase with a line end in it.
        text = text.replace("hello\r\nworld", "hello\r\nship world")
        choice = r.randint(0, 4)
        if choice == 0:
            kind, body = self.one(REPORTS)
            return f"Content-Type: {kind}\r\n", body
        if choice == 1:
            encoding, body = self.one(ENCODED)
            return f"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n", body
        if choice == 2:
            return f"Content-Type: {self.one(ODD_TYPES)}\r\n", text
        if choice == 3:
            return f"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: {self.one(ODD_ENCODINGS)}\r\n", text
        return self.field("Content-Disposition", self.one(ODD_DISPOSITIONS)) + "\r\n" + self.field("Content-Language", self.one(ODD_LANGUAGES)) + "\r\n", text

    def multipart(self, depth):
        r, made = self.r, ""
        # Either one boundary begins another and their lines are exact, or lines only begin with a boundary (RFC 2046 §5.1.1).
        if self.is_exact:
            boundary, ends, closings = "outer" + "x" * depth, ["", "", " ", "\t "], ["--", "--", "-- ", None]
        else:
            boundary, ends = ["b", "a b", "=_x'()+_,-./:=?"][depth], ["", "", " ", "x"]
            closings = ["--", "--", "--", "-->", "-- ", "", "-", None]
        if r.random() < 0.2:
            made += r.choice(["preamble\r\n", "\r\n", f" --{boundary}\r\n"])
        for _ in range(r.randint(1, 3)):
            if depth < 2 and r.random() < 0.25:
                header, body = self.multipart(depth + 1)
                self.skip |= ENDS
            else:
                header, body = self.leaf()
            blank = r.choice(["\r\n", "\r\n", "\r\n", "\r\n", ""])
            if not blank or not body:
                self.skip |= NO_PARTS
            made += f"--{boundary}{r.choice(ends)}\r\n{header}{blank}{body}" + r.choice(["\r\n", "\r\n", "\r\n\r\n"])
        closing = r.choice(closings)
        if closing is not None:
            made += f"--{boundary}{closing}\r\n" + r.choice(["", "", "epilogue anchor\r\n"])
        kind = r.choice(["mixed", "alternative", "report; report-type=delivery-status", "MIXED"])
        return f'Content-Type: multipart/{kind}; boundary="{boundary}"\r\n', made

    def message(self):
        r, fields = self.r, []
        for name, chance in (("From", 0.9), ("To", 0.9), ("Cc", 0.5), ("Sender", 0.2), ("Reply-To", 0.2), ("Bcc", 0.2)):
            if r.random() < chance:
                fields.append(self.field(name, self.one(ODD_ADDRESSES) if r.random() < 0.6 else address(r)))
        fields.append(self.field("Subject", self.one(ODD_SUBJECTS) if r.random() < 0.6 else words(r)))
        fields.append(self.field("Date", self.one(ODD_DATES) if r.random() < 0.6 else "Sat, 14 Mar 2020 10:11:12 +0000"))
        fields.append(self.field("Message-ID", self.one(ODD_IDS) if r.random() < 0.4 else f"<{r.randint(1, 999)}@x.test>"))
        if r.random() < 0.2:
            fields.append(self.field("In-Reply-To", self.one(ODD_IDS)))
        for name, text, skip in (("Subject", "second", NO_WORDS), ("Date", "Sun, 15 Mar 2020 10:11:12 +0000", NO_DATE), ("Message-ID", "<second@x.test>", set()),
                                 ("From", "second@x.test", set()), ("To", "second@x.test", set())):
            if r.random() < 0.05:
                # 21: which of two.
                fields.append(f"{name}: {text}")
                self.skip |= skip
        if r.random() < 0.15:
            fields.append(r.choice(ODD_FIELDS))
        r.shuffle(fields)
        made = "\r\n".join(fields)
        if r.random() < 0.05:
            self.skip |= {"header fields"}
            return (made + r.choice(["", "\r\n", "\r\n\r\n"])).encode()
        header, body = self.leaf() if r.random() < 0.4 else self.multipart(0)
        made = f"{made}\r\nMIME-Version: 1.0\r\n{header}\r\n{body}"
        # Dovecot may change the encoding of a message in literal8 (RFC 3516 §4.4): only without "binary".
        return (made.replace("\0", "") if ": binary" in made else made).encode()

# ---- comparison ----

ODD_WORDS = ["hello", "world", "anchor", "lorem", "x.test", "ana", "", "ärger", "pete(", "mary", "chris", "group", "hidden", "public", "jürgen", "alt", "local",
             "failed", "inner", "epilogue", "preamble", "あい", "€", "über", "second", "quoted", "folded", "soft break", "Report"]
ODD_ITEMS = ["ENVELOPE", "BODYSTRUCTURE", "RFC822.SIZE", "BODY.PEEK[]", "BODY.PEEK[HEADER]", "BODY.PEEK[TEXT]", "BODY.PEEK[1]", "BODY.PEEK[1.MIME]", "BODY.PEEK[2]",
             "BODY.PEEK[1.1]", "BODY.PEEK[1.HEADER]", "BODY.PEEK[1.TEXT]", "BODY.PEEK[2.MIME]", "BODY.PEEK[2.1]", "BODY.PEEK[2.TEXT]", "BODY.PEEK[3]",
             "BODY.PEEK[HEADER.FIELDS (SUBJECT FROM TO)]"]

def same_structure(value):
    """Without what may be written or not: the default charset (12), and a list around one language (12)."""
    if not isinstance(value, list):
        return value
    if value and all(isinstance(item, bytes) for item in value):
        pairs = list(zip(value[::2], value[1::2])) if len(value) % 2 == 0 else []
        if (b"charset", b"us-ascii") in pairs:
            return [item for pair in pairs if pair != (b"charset", b"us-ascii") for item in pair] or None
        return value[0] if len(value) == 1 else value
    return [same_structure(item) for item in value]

def odd_sequence(seed, sessions):
    """Reads and searches a mailbox of odd messages."""
    r = random.Random(f"odd {seed}")
    box, pair, skips = f"q{seed}", sessions[0], {}
    for session in pair:
        session.ask(f"DELETE {box}".encode())
    both(pair, "CREATE", (), f"CREATE {box}".encode())
    for number in range(1, r.randint(3, 8)):
        odd = Odd(r)
        made = odd.message()
        # NUL is in literal8 alone (RFC 9051 §4.3.1).
        tilde = "~" if b"\0" in made else ""
        both(pair, "APPEND", (), [f'APPEND {box} () "01-Feb-2021 10:30:00 +0000" {tilde}{{{len(made)}}}'.encode(), made])
        skips[number] = odd.skip
    both(pair, "SELECT", (), f"SELECT {box}".encode())
    structure_of = structures(pair[0], b"FETCH 1:* ")

    def compare(kind, command, of, names):
        answers = [meaning(kind, {of}, *session.ask(command)) for session in pair]
        ours, theirs = allowed(kind, command, structure_of, *answers)
        for answer in (ours, theirs):
            for number, skip in skips.items():
                if skip & names:
                    answer.get("fetch", {}).pop(number, None)
                    answer["search"] = [found for found in answer.get("search", []) if found != number]
                if "ends" in skip and "BODY" in names:
                    items = answer.get("fetch", {}).get(number, {})
                    items.update({name: value and value.rstrip(b"\r\n") for name, value in items.items()})
            for items in answer.get("fetch", {}).values():
                items.update({name: same_structure(value) for name, value in items.items() if name == "BODYSTRUCTURE"})
        if ours != theirs:
            raise Differs(f"{command!r}\n" + "\n".join(unlike("", ours, theirs)))

    for item in ODD_ITEMS:
        of = re.split(r"[\[<]", item.replace(".PEEK", ""))[0]
        names = {"header fields"} if "FIELDS" in item else {"BODY"} if re.search(r"\[\d", item) else {of} if of != "BODY" else set()
        compare("FETCH", f"FETCH 1:* ({item})".encode(), of, names)
    for where in ("SUBJECT", "FROM", "TO", "CC", "BCC", "BODY", "TEXT", "HEADER Subject", "HEADER From", "HEADER Message-ID", "HEADER X-Empty"):
        for word in r.sample(ODD_WORDS, 8):
            names = {"addresses"} if where in ("FROM", "TO", "CC", "BCC") else {"words"}
            compare("SEARCH", f"SEARCH CHARSET UTF-8 {where} ".encode() + literal(word), "", names)
    for key in ("SENTON", "SENTBEFORE", "SENTSINCE"):
        for date in ("20-Dec-1995", "21-Dec-1995", "14-Mar-2020", "20-Dec-2049"):
            compare("SEARCH", f"SEARCH {key} {date}".encode(), "", {"sent"})
    both(pair, "CLOSE", (), b"UNSELECT")
    both(pair, "DELETE", (), f"DELETE {box}".encode())
