# Asks Dovecot and Posthaste the same random commands on the same mail and compares what the
# answers mean. The text of odd_messages.py, differential_names.py, differential_resync.py,
# differential_sessions.py, differential_reads.py, differential_extensions.py and this file, in
# that order, is one program: `python3 - PORT USER PASSWORD DOVECOT SEED COUNT [NAMES]`. It runs
# the sequences SEED up to SEED + COUNT - 1, two sessions each. A sequence depends on its seed
# alone. `SEQUENCES` has the kinds. NAMES chooses some of them, as `tree,metadata`, for all seeds.
# Without it, those in FIRST_ONLY run for the first FEW seeds, and those in OFF do not run.
#
# Compared are: OK, NO or BAD; the items that a FETCH asked for; the numbers of SEARCH and
# ESEARCH; the order of SORT; the threads of THREAD; STATUS; LIST; the numbers of COPYUID and
# APPENDUID; at the end UIDs, flags and sizes of all messages. Not compared are texts for people,
# \Recent, and when a change is reported. Here each command follows a NOOP in its session;
# `differential_resync.py` and `differential_sessions.py` leave it out. `docs/differences.md`
# lists what differs and why. The rules for it are in `allowed`, in the generators, and in
# `odd_messages.py`.

import itertools, os, random, re, shutil, socket, subprocess, sys, tempfile

FEW = 5

CONF = """
base_dir = {dir}/run
mail_location = maildir:{dir}/mail
mail_uid = {uid}
mail_gid = {uid}
first_valid_uid = 0
log_path = {dir}/log
ssl = no
protocols = imap
mail_fsync = never
mail_attribute_dict = file:{dir}/attributes
protocol imap {{
  imap_metadata = yes
}}
namespace inbox {{
  inbox = yes
  separator = /
{special}}}
"""

SPECIAL_CONF = "".join(f"""  mailbox {name} {{
    special_use = \\{name}
    auto = create
  }}
""" for name in SPECIAL_NAMES)

# ---- a session ----

class Session:
    def __init__(self, name, reader, writer):
        self.name, self.reader, self.writer, self.count = name, reader, writer, 0
        # Messages in the mailbox that is open, as they were reported.
        self.exists = 0

    def line(self):
        """A response with its literals."""
        whole = b""
        while True:
            got = self.reader.readline()
            assert got.endswith(b"\n"), (self.name, "ended", whole, got)
            whole += got
            literal = re.search(rb"~?\{(\d+)\}\r\n$", got)
            if not literal:
                return whole
            whole += self.reader.read(int(literal[1]))

    def ask(self, command):
        """Sends a command; its literals are behind NULs, or it is a list. Untagged responses, and the tagged one."""
        self.count += 1
        tag = b"t%d " % self.count
        pieces = command if isinstance(command, list) else command.split(b"\0")
        self.writer.write(tag + pieces[0])
        for literal in pieces[1:]:
            self.writer.write(b"\r\n")
            self.writer.flush()
            got = self.line()
            if not got.startswith(b"+"):
                return [], got[len(tag):]
            self.writer.write(literal)
        self.writer.write(b"\r\n")
        self.writer.flush()
        untagged = []
        while True:
            got = self.line()
            if got.startswith(tag):
                return untagged, got[len(tag):]
            exists = re.match(rb"\* (\d+) EXISTS", got)
            self.exists = int(exists[1]) if exists else self.exists - bool(re.match(rb"\* \d+ EXPUNGE", got))
            untagged.append(got)

def posthaste(port, user, password):
    stream = socket.create_connection(("127.0.0.1", int(port)))
    session = Session("Posthaste", stream.makefile("rb"), stream.makefile("wb"))
    session.line()
    assert session.ask(f'LOGIN {user} "{password}"'.encode())[1].startswith(b"OK")
    return session

def dovecot(program, directory):
    ours, theirs = socket.socketpair()
    root = os.getuid() == 0
    extra = dict(user=65534, group=65534, extra_groups=[]) if root else {}
    subprocess.Popen([program, "-c", directory + "/dovecot.conf"], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL,
                     env={"HOME": directory, "USER": "nobody"}, **extra)
    theirs.close()
    session = Session("Dovecot", ours.makefile("rb"), ours.makefile("wb"))
    assert session.line().startswith(b"* PREAUTH")
    return session

# ---- answers as values ----

TOKEN = re.compile(rb'\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|~?\{(\d+)\}\r\n|((?:BODY|BINARY)\[[^\]]*\](?:<\d+>)?|[^\s()"]+))')

def values(text):
    """Parenthesized data as nested lists; strings as bytes, atoms as str, NIL as None."""
    stack, at = [[]], 0
    while text[at:].strip():
        found = TOKEN.match(text, at)
        at = found.end()
        opened, closed, quoted, literal, atom = found.groups()
        if opened:
            stack.append([])
        elif closed:
            made = stack.pop()
            stack[-1].append(made)
        elif quoted is not None:
            stack[-1].append(re.sub(rb"\\(.)", rb"\1", quoted))
        elif literal is not None:
            stack[-1].append(text[at:at + int(literal)])
            at += int(literal)
        else:
            stack[-1].append(None if atom.upper() == b"NIL" else atom.decode("latin1"))
    return stack[0]

def lower(value):
    """Media types, encodings and names of parameters may be written in any case."""
    if isinstance(value, list):
        return [lower(item) for item in value]
    return value.lower() if isinstance(value, bytes) else value

def numbers(text):
    made = set()
    for part in text.split(","):
        first, _, last = part.partition(":")
        made.update(range(int(first), int(last or first) + 1))
    return made

def in_order(text):
    made = []
    for part in text.split(","):
        first, _, last = part.partition(":")
        made.extend(range(int(first), int(last or first) + 1))
    return made

def meaning(kind, wanted, untagged, tagged):
    status = tagged.split(b" ", 1)[0].decode()
    made = {"status": status}
    code = re.match(rb"OK \[(?:COPYUID|APPENDUID) \d+ ([\d:, ]+)\]", tagged)
    for text in untagged:
        code = code or re.match(rb"\* OK \[COPYUID \d+ ([\d:, ]+)\]", text)
        fetch = re.match(rb"\* (\d+) FETCH ", text)
        if fetch and kind in ("FETCH", "STORE"):
            data = values(text[fetch.end():])[0]
            items = made.setdefault("fetch", {}).setdefault(int(fetch[1]), {})
            for name, value in zip(data[::2], data[1::2]):
                name = name.upper()
                if name.split("[")[0] not in wanted:
                    continue
                if name == "FLAGS":
                    value = sorted(flag.lower() for flag in value if flag.lower() != "\\recent")
                elif name in ("BODY", "BODYSTRUCTURE"):
                    value = lower(value)
                elif name == "INTERNALDATE":
                    # date-day-fixed: a space or a zero.
                    value = value.replace(b" ", b"0", 1) if value.startswith(b" ") else value
                items[name] = value
        elif text.startswith(b"* SEARCH") and kind == "SEARCH":
            made["search"] = sorted(map(int, text.split()[2:]))
        elif text.startswith(b"* ESEARCH") and kind == "SEARCH":
            for name, value in re.findall(r"(MIN|MAX|COUNT|ALL) (\S+)", text.decode()):
                made[name] = numbers(value)
        elif text.startswith(b"* SORT") and kind == "SORT":
            made["sort"] = list(map(int, text.split()[2:]))
        elif text.startswith(b"* ESEARCH") and kind == "SORT":
            for name, value in re.findall(r"(MIN|MAX|COUNT|ALL) (\S+)", text.decode()):
                made[name] = in_order(value)
        elif text.startswith(b"* THREAD") and kind == "THREAD":
            made["thread"] = text.split(b" ", 2)[2].strip() if text.count(b" ") > 1 else b""
        elif text.startswith(b"* STATUS") and kind == "STATUS":
            data = values(text[len(b"* STATUS"):])
            made["status of"] = dict(zip(data[1][::2], data[1][1::2]))
        elif text.startswith((b"* LIST", b"* LSUB")) and kind == "LIST":
            flags, separator, name = values(text[6:])[:3]
            name = name if isinstance(name, str) else name.decode()
            # \Unmarked and the like are guesses; \HasChildren is not sent unless it is asked for.
            flags = sorted(flag.lower() for flag in flags if flag.lower() in ("\\noselect", "\\nonexistent"))
            made.setdefault("list", {})[name] = flags
    if code:
        made["uids"] = [sorted(numbers(part)) for part in code[1].decode().split()]
    if "fetch" in made:
        made["fetch"] = {number: items for number, items in made["fetch"].items() if items}
    return made

# ---- mail ----

WORDS = "hello world Report numbers invoice münchen Ärger ship price anchor lorem ipsum".split()
NAMES = ["Ana Alt", '"Bob, B."', "=?utf-8?Q?J=C3=BCrgen?=", "", '"Carl \\"C\\" Cäsar"']
HOSTS = ["x.test", "mail.example.org", "y.test"]
# Of messages within: nothing that is looked for (row 9).
INNER_WORDS = "inside within österlich".split()
INNER_NAMES = ["Inga Inn", '"Ina, I."', "=?utf-8?Q?J=C3=B6rg?=", "", '"Ida \\"I\\" Öst"']
ENCODINGS = ["7bit", "quoted-printable", "base64", "8bit", None]

def words(r, least=1, most=8, among=WORDS):
    return " ".join(r.choice(among) for _ in range(r.randint(least, most)))

def address(r, is_inner=False):
    name, spec = r.choice(NAMES), f"{r.choice('abcde')}{r.randint(1, 9)}@{r.choice(HOSTS)}"
    if is_inner:
        name, spec = r.choice(INNER_NAMES), f"{r.choice('fgh')}{r.randint(1, 9)}@q.example"
    return f"{name} <{spec}>" if name else spec

def content(r, text, encoding):
    import base64, quopri
    data = text.encode()
    if encoding == "base64":
        return base64.encodebytes(data).replace(b"\n", b"\r\n")
    if encoding == "quoted-printable":
        return quopri.encodestring(data).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return data

def leaf(r, is_text):
    """A part: its header without a blank line, and its body."""
    kind = "text/plain" if is_text else r.choice(["text/plain", "text/html", "application/octet-stream", "image/PNG", "message/delivery-status", None])
    encoding = r.choice(ENCODINGS)
    header = ""
    if kind:
        header += f"Content-Type: {kind}"
        if kind.startswith("text"):
            header += r.choice(["; charset=utf-8", '; charset="UTF-8"; format=flowed', ";\r\n charset=utf-8"])
        elif r.random() < 0.5:
            header += '; name="a file.bin"'
        header += "\r\n"
    if encoding:
        header += f"Content-Transfer-Encoding: {encoding}\r\n"
    if r.random() < 0.3:
        header += r.choice(["Content-Disposition: inline\r\n", 'Content-Disposition: attachment; filename="x.bin"; size=5\r\n'])
    if r.random() < 0.2:
        header += r.choice(["Content-ID: <part@q.example>\r\n", "Content-Description: a part\r\n", "Content-Language: en, de\r\n",
                            "Content-MD5: Q2hlY2sgSW50ZWdyaXR5IQ==\r\n", "Content-Location: http://q.example/\r\n"])
    text = "\r\n".join(words(r) for _ in range(r.randint(0, 6)))
    # A phrase may have a line end in it (row 23).
    text = text.replace("hello\r\nworld", "hello\r\nship world")
    return header.encode(), content(r, text + ("\r\n" if text else ""), encoding)

def part(r, depth, is_text=False, is_root=False):
    # The root of a message is no message (row 9).
    choice = r.choice([0, 1]) if is_root else r.random()
    if depth >= 3 or choice < 0.55:
        return leaf(r, is_text)
    if choice < 0.75:
        return b"Content-Type: message/rfc822\r\n", message(r, depth + 1)
    boundary = f"b{depth}{r.randint(0, 9)}"
    kind = r.choice(["mixed", "alternative", "related", "digest"])
    made = b""
    if r.random() < 0.3:
        made += b"preamble " + words(r).encode() + b"\r\n"
    for _ in range(r.randint(1, 3)):
        # In a digest the default would be an encoded message (row 6).
        header, body = part(r, depth + 1, is_text=kind == "digest")
        made += f"--{boundary}\r\n".encode() + header + b"\r\n" + body + b"\r\n"
    made += f"--{boundary}--\r\n".encode()
    if r.random() < 0.2:
        made += b"epilogue\r\n"
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\r\n'.encode(), made

def message(r, depth=0):
    among, host = (INNER_WORDS, "q.example") if depth else (WORDS, "x.test")
    someone = lambda: address(r, is_inner=depth > 0)
    fields = [f"Subject: {words(r, among=among)}", f"From: {someone()}",
              "To: " + ", ".join(someone() for _ in range(r.randint(1, 3))),
              f"Date: {r.choice(['Mon, ', ''])}{r.randint(1, 28)} Mar {r.choice(['2020', '1999'])} {r.randint(0, 23):02}:10:11 {r.choice(['+0000', '-0500', 'GMT'])}",
              f"Message-ID: <{r.randint(1, 999)}@{host}>"]
    for field, chance in [(f"Cc: {someone()}", 0.4), (f"Bcc: {someone()}", 0.2), (f"Sender: {someone()}", 0.2),
                          (f"Reply-To: {someone()}", 0.2), (f"In-Reply-To: <1@{host}>", 0.3),
                          ("X-Test: " + words(r, among=among), 0.4)]:
        if r.random() < chance:
            fields.append(field)
    if r.random() < 0.15 and not depth:
        fields[0] = "Subject: =?utf-8?B?w4RyZ2Vy?=\r\n =?utf-8?Q?_w=C3=B6rld?="
    if r.random() < 0.1:
        # Not Date, the fourth (row 7).
        fields.pop(r.choice([0, 1, 2, 4]))
    r.shuffle(fields)
    # A message in another is text (row 9).
    header, body = part(r, depth + 1, is_text=depth > 0, is_root=True) if r.random() < 0.7 else (b"", words(r).encode() + b"\r\n")
    return "\r\n".join(fields).encode() + b"\r\nMIME-Version: 1.0\r\n" + header + b"\r\n" + body

# ---- commands ----

FLAGS = ["\\Seen", "\\Answered", "\\Flagged", "\\Deleted", "\\Draft", "$Work", "later"]
ITEMS = ["FLAGS", "UID", "RFC822.SIZE", "ENVELOPE", "BODY", "BODYSTRUCTURE", "INTERNALDATE", "BODY.PEEK[]", "BODY.PEEK[HEADER]",
         "BODY.PEEK[TEXT]", "BODY.PEEK[1]", "BODY.PEEK[1.MIME]", "BODY.PEEK[2]", "BODY.PEEK[1.1]", "BODY.PEEK[1.HEADER]",
         "BODY.PEEK[1.TEXT]", "BODY.PEEK[2.2.MIME]", "BODY.PEEK[]<3.40>", "BODY.PEEK[HEADER.FIELDS (SUBJECT FROM)]",
         "BODY.PEEK[HEADER.FIELDS.NOT (SUBJECT TO DATE)]", "BODY.PEEK[1.HEADER.FIELDS (FROM)]", "BODY[TEXT]<0.5>",
         "BINARY.PEEK[1]"]

def literal(text):
    data = text.encode()
    return b"{%d}\0" % len(data) + data

def number_set(r, top):
    """Numbers of messages, mostly of those that are there (row 3 of `docs/differences.md`), or UIDs."""
    pick = lambda: str(r.randint(1, top))
    return r.choice([pick, lambda: "1:*", lambda: f"{pick()}:{pick()}", lambda: f"{pick()},{pick()}", lambda: "*", lambda: f"{pick()}:*"])()

def key(r, exists, depth=0):
    choice = r.random()
    if choice < 0.12 and depth < 3:
        return b"NOT " + key(r, exists, depth + 1)
    if choice < 0.2 and depth < 3:
        return b"OR " + key(r, exists, depth + 1) + b" " + key(r, exists, depth + 1)
    if choice < 0.26 and depth < 3:
        return b"(" + key(r, exists, depth + 1) + b" " + key(r, exists, depth + 1) + b")"
    if choice < 0.6:
        word = r.choice(WORDS + ["o w", "x.test", "a1@", "ü", "nowhere", "Re"])
        where = r.choice(["SUBJECT", "FROM", "TO", "CC", "BCC", "BODY", "TEXT", "HEADER Subject", "HEADER X-Test", "HEADER To"])
        return where.encode() + b" " + literal(word)
    return r.choice([
        lambda: r.choice(["SEEN", "UNSEEN", "FLAGGED", "DELETED", "UNDELETED", "ANSWERED", "DRAFT", "ALL", "UNANSWERED"]),
        lambda: f"{r.choice(['KEYWORD', 'UNKEYWORD'])} {r.choice(['$Work', 'later', 'never'])}",
        lambda: f"{r.choice(['LARGER', 'SMALLER'])} {r.randint(100, 3000)}",
        lambda: f"{r.choice(['SENTBEFORE', 'SENTON', 'SENTSINCE'])} {r.randint(1, 28)}-Mar-{r.choice(['2020', '1999'])}",
        lambda: f"{r.choice(['BEFORE', 'ON', 'SINCE'])} {r.randint(1, 28)}-Feb-2021",
        lambda: number_set(r, exists) if exists else "ALL",
        lambda: "UID " + number_set(r, 8),
    ])().encode()

def command(r, box, exists):
    """A kind, what of FETCH is compared, and the command."""
    uid = r.choice(["", "", "UID "])
    # In an empty mailbox a number is BAD, and so is `*`.
    top = 8 if uid else max(exists, 1)
    choice = r.random()
    if choice < 0.4:
        items = r.sample(ITEMS, r.randint(1, 4))
        wanted = {re.split(r"[\[<]", item.replace(".PEEK", ""))[0] for item in items}
        return "FETCH", wanted, f"{uid}FETCH {number_set(r, top)} ({' '.join(items)})".encode()
    if choice < 0.7:
        returns = r.choice(["", "", "RETURN (MIN MAX COUNT) ", "RETURN (ALL) ", "RETURN () "])
        keys = b" ".join(key(r, exists) for _ in range(r.randint(1, 2)))
        return "SEARCH", (), f"{uid}SEARCH {returns}CHARSET UTF-8 ".encode() + keys
    if choice < 0.82:
        how = r.choice(["FLAGS", "+FLAGS", "-FLAGS", "+FLAGS.SILENT"])
        flags = " ".join(r.sample(FLAGS, r.randint(1, 3)))
        return "STORE", {"FLAGS"}, f"{uid}STORE {number_set(r, top)} {how} ({flags})".encode()
    if choice < 0.87:
        return "COPY", (), f"{uid}COPY {number_set(r, top)} {r.choice([box, box + '/sub', box + '/none'])}".encode()
    if choice < 0.9:
        return "MOVE", (), f"{uid}MOVE {number_set(r, top)} {box}/sub".encode()
    if choice < 0.93:
        return "EXPUNGE", (), b"EXPUNGE"
    if choice < 0.96:
        return append(r, box)
    if choice < 0.98:
        return "STATUS", (), f"STATUS {r.choice([box, box + '/sub', box + '/none'])} (MESSAGES UIDNEXT UNSEEN)".encode()
    return "LIST", (), f'LIST "" {r.choice([box, box + "/%", box + "*", box + "/sub", box + "/none"])}'.encode()

def append(r, box):
    made = message(r)
    flags = " ".join(r.sample(FLAGS, r.randint(0, 2)))
    date = f"{r.randint(1, 28):02}-Feb-2021 {r.randint(0, 23):02}:30:00 +0000"
    return "APPEND", (), f'APPEND {box} ({flags}) "{date}" {{{len(made)}}}'.encode() + b"\0" + made

# ---- sorting and threading ----

SUBJECTS = ["ship", "Re: ship", "price list", "[list] Price List", "Fwd: price list (fwd)", "re[2]: ship", "", "Re:",
            "=?utf-8?Q?=C3=84rger?=", "Re: =?iso-8859-1?q?=E4RGER?=", "[fwd: Re: ship]", "ship_2", "shipA", "SHIPb",
            "Fw: [a] [b] ship", "(fwd)", "ship  of\r\n fools", "[only]"]

def ordered_message(r, ids):
    """A header for SORT and THREAD to look at; some fields are missing."""
    name = r.choice(ids)
    fields = [(f"Subject: {r.choice(SUBJECTS)}", 0.9), (f"From: {address(r)}", 0.9), (f"To: {address(r)}, {address(r)}", 0.8),
              (f"Cc: {address(r)}", 0.5), (f"Message-ID: <{name}@x.test>", 0.9),
              (f"Date: {r.randint(1, 9)} Mar 2020 {r.randint(0, 23):02}:10:11 {r.choice(['+0000', '-0500', '+1300', 'GMT'])}", 0.9)]
    # Ancestors have lower numbers, mostly.
    above = [other for other in ids if other < name or r.random() < 0.05]
    if above and r.random() < 0.7:
        some = sorted(r.sample(above, min(len(above), r.randint(1, 4))))
        if r.random() < 0.8:
            fields.append(("References: " + "\r\n ".join(f"<{other}@x.test>" for other in some), 1))
        else:
            fields.append((f"In-Reply-To: <{some[-1]}@x.test>", 1))
    made = [field for field, chance in fields if r.random() < chance]
    r.shuffle(made)
    body = "x" * r.randint(0, 30)
    return "".join(field + "\r\n" for field in made).encode() + f"\r\n{body}\r\n".encode()

SORT_KEYS = ["ARRIVAL", "CC", "DATE", "FROM", "SIZE", "SUBJECT", "TO", "DISPLAYFROM", "DISPLAYTO"]

def ordering(r, exists):
    """A kind and a command whose answer has an order."""
    uid = r.choice(["", "UID "])
    which = r.choice([b"ALL", b"ALL", b"UNSEEN", b"SUBJECT ship", f"{r.randint(1, exists)}:*".encode(), b"NOT SEEN SINCE 1-Jan-2020"])
    if r.random() < 0.6:
        returns = r.choice(["", "", "RETURN () ", "RETURN (MIN MAX COUNT) ", "RETURN (ALL COUNT) "])
        keys = " ".join(r.choice(["", "REVERSE "]) + name for name in r.sample(SORT_KEYS, r.randint(1, 3)))
        return "SORT", f"{uid}SORT {returns}({keys}) UTF-8 ".encode() + which
    algorithm = r.choice(["ORDEREDSUBJECT", "REFERENCES", "REFERENCES", "REFS"])
    return "THREAD", f"{uid}THREAD {algorithm} UTF-8 ".encode() + which

def ordered_sequence(seed, sessions):
    """Sorts and threads a mailbox of its own."""
    r = random.Random(f"order {seed}")
    box, pair = f"o{seed}", sessions[0]
    for session in pair:
        session.ask(f"DELETE {box}".encode())
    both(pair, "CREATE", (), f"CREATE {box}".encode())
    ids = [f"{n:03}" for n in range(r.randint(4, 20))]
    for _ in range(r.randint(2, 24)):
        made = ordered_message(r, ids)
        date = f"{r.randint(1, 9):02}-Feb-2021 {r.randint(0, 23):02}:30:00 +0000"
        both(pair, "APPEND", (), f'APPEND {box} () "{date}" {{{len(made)}}}'.encode() + b"\0" + made)
    both(pair, "SELECT", (), f"SELECT {box}".encode())
    # Each key once for all messages, and no new ones later (row 10).
    for name in SORT_KEYS:
        both(pair, "SORT", (), f"SORT ({name}) UTF-8 ALL".encode())
    for _ in range(20):
        kind, text = ordering(r, pair[0].exists)
        both(pair, kind, (), text)
    both(pair, "CLOSE", (), b"UNSELECT")
    both(pair, "DELETE", (), f"DELETE {box}".encode())

# ---- comparison ----

def is_composite(structure):
    return isinstance(structure[0], list) or [structure[0].lower(), structure[1].lower()] == [b"message", b"rfc822"]

def parts_of(structure):
    """The parts that have numbers below the number of this part."""
    if not is_composite(structure):
        return []
    if isinstance(structure[0], list):
        return list(itertools.takewhile(lambda part: isinstance(part, list), structure))
    inner = structure[8]
    return parts_of(inner) if isinstance(inner[0], list) else [inner]

def is_leaf(structure, section):
    """Whether there is a part of this number, and it has no parts."""
    parts, found = parts_of(structure) if isinstance(structure[0], list) else [structure], None
    for number in map(int, section.split(".")):
        if not 1 <= number <= len(parts):
            return False
        found = parts[number - 1]
        parts = parts_of(found)
    return not is_composite(found)

def structures(session, command):
    """The structure of each message that a FETCH names."""
    made, of = {}, re.match(rb"(?:UID )?FETCH \S+ ", command)[0]
    for text in session.ask(of + b"(BODYSTRUCTURE)")[0]:
        fetch = re.match(rb"\* (\d+) FETCH ", text)
        data = values(text[fetch.end():])[0] if fetch else []
        if "BODYSTRUCTURE" in data:
            made[int(fetch[1])] = data[data.index("BODYSTRUCTURE") + 1]
    return made

def allowed(kind, command, structure_of, ours, theirs):
    """Takes out what `docs/differences.md` has; the numbers are its rows."""
    for number, items in ours.get("fetch", {}).items():
        other = theirs.get("fetch", {}).get(number, {})
        for name, value in items.items():
            # 1: no such part; Dovecot also takes a part without parts for its own part 1.
            below = re.match(r"BODY\[([\d.]+)\.1\]", name)
            of_leaf = below and number in structure_of and is_leaf(structure_of[number], below[1])
            if value is None and (other.get(name) == b"" or of_leaf):
                other[name] = None
    # 2: a STORE that changes nothing.
    if kind == "STORE" and b".SILENT" not in command:
        for number, items in ours.get("fetch", {}).items():
            theirs.setdefault("fetch", {}).setdefault(number, items)
    # 11: the order of REFS' threads.
    if b"THREAD REFS" in command:
        for answer in (ours, theirs):
            # Parentheses that close the first level end a thread.
            depth, threads, start = 0, [], 0
            for at, byte in enumerate(answer.get("thread", b"")):
                depth += {ord("("): 1, ord(")"): -1}.get(byte, 0)
                if depth == 0:
                    threads.append(answer["thread"][start:at + 1])
                    start = at + 1
            answer["thread"] = sorted(threads)
    # 8: COPY of nothing to a mailbox that does not exist.
    if kind == "COPY" and command.endswith(b"/none") and command.startswith(b"UID") and theirs == {"status": "OK"}:
        theirs = ours
    return ours, theirs

class Differs(Exception):
    pass

def unlike(path, ours, theirs):
    """Where two answers differ, a line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys(), key=str):
            yield from unlike(f"{path}/{name}", ours.get(name, "-"), theirs.get(name, "-"))
    elif ours != theirs:
        yield f"  {path}\n    Posthaste {ours}\n    Dovecot   {theirs}"

def both(pair, kind, wanted, command):
    made, composite, structure_of = [], set(), {}
    # A command in pieces is an APPEND.
    if isinstance(command, bytes) and re.search(rb"BINARY|\[[\d.]+\.1\]", command):
        structure_of = structures(pair[0], command)
    for number, structure in structure_of.items():
        # 5: of composite parts.
        if is_composite(structure[0] if isinstance(structure[0], list) else structure):
            composite.add(number)
    for session in pair:
        made.append(meaning(kind, wanted, *session.ask(command)))
    for answer in made:
        for number in composite:
            items = answer.get("fetch", {}).get(number, {})
            for name in [name for name in items if name.startswith("BINARY")]:
                del items[name]
    ours, theirs = allowed(kind, command, structure_of, *made)
    if ours != theirs:
        raise Differs(f"{command!r}\n" + "\n".join(unlike("", ours, theirs)))

def sequence(seed, sessions):
    r = random.Random(seed)
    box = f"d{seed}"
    first = sessions[0]
    for name in (box, box + "/sub"):
        for session in first:
            # Of a run before.
            session.ask(f"DELETE {name}".encode())
        both(first, "CREATE", (), f"CREATE {name}".encode())
    for _ in range(r.randint(1, 5)):
        both(first, *append(r, box))
    for pair in sessions:
        both(pair, "SELECT", (), f"SELECT {box}".encode())
    for _ in range(r.randint(5, 15)):
        pair = r.choice(sessions)
        both(pair, "NOOP", (), b"NOOP")
        both(pair, *command(r, box, pair[0].exists))
    for pair in sessions:
        both(pair, "NOOP", (), b"NOOP")
        both(pair, "FETCH", {"UID", "FLAGS", "RFC822.SIZE"}, b"UID FETCH 1:* (UID FLAGS RFC822.SIZE)")
        both(pair, "CLOSE", (), b"UNSELECT")
    for name in (box + "/sub", box):
        both(first, "DELETE", (), f"DELETE {name}".encode())

SEQUENCES = {
    "commands": sequence, "order": ordered_sequence, "odd": odd_sequence, "names": names_sequence, "stale": stale_sequence,
    "pieces": pieces_sequence, "resync": resync_sequence, "returns": returns_sequence, "binary": binary_sequence,
    "preview": preview_sequence, "saved": saved_sequence, "condstore": condstore_sequence, "tree": tree_sequence,
    "special": special_sequence, "metadata": metadata_sequence, "move": move_sequence, "codes": codes_sequence,
    "notify": notify_sequence,
}
FIRST_ONLY = {"stale", "pieces", "returns", "binary", "preview", "saved", "condstore", "tree", "special", "metadata", "move", "codes"}
# ENABLE and NOTIFY change the answers of a session for good.
WITH_OWN_SESSIONS = {"resync", "condstore", "notify"}
# When Dovecot learns of another session's change is its own choice.
OFF = {"notify"}

def chosen(names, is_first):
    """The kinds of sequences to run for a seed."""
    if names:
        return names.split(",")
    return [name for name in SEQUENCES if name not in OFF and (is_first or name not in FIRST_ONLY)]

def main(port, user, password, program, seed, count, names=""):
    directory = tempfile.mkdtemp(prefix="differential")
    owner = 65534 if os.getuid() == 0 else os.getuid()
    try:
        for name in ("mail", "run"):
            os.mkdir(f"{directory}/{name}")
        with open(directory + "/dovecot.conf", "w") as conf:
            conf.write(CONF.format(dir=directory, uid=owner, special=SPECIAL_CONF))
        if os.getuid() == 0:
            for name in ("", "/mail", "/run"):
                os.chown(directory + name, owner, owner)
        start = lambda: [[posthaste(port, user, password), dovecot(program, directory)] for _ in range(2)]
        sessions, differences = start(), 0
        for number in range(int(seed), int(seed) + int(count)):
            for name in chosen(names, number < int(seed) + FEW):
                used = start() if name in WITH_OWN_SESSIONS else sessions
                try:
                    SEQUENCES[name](number, used)
                    if used is not sessions:
                        for session in used[0] + used[1]:
                            session.ask(b"LOGOUT")
                except Differs as why:
                    differences += 1
                    # So it runs alone: POSTHASTE_DIFFERENTIAL="SEED 1 NAME".
                    print(f"seed {number} 1 {name}: {why}")
                    sessions = start()
                except BaseException:
                    print(f"seed {number} 1 {name}: the script ends here", flush=True)
                    raise
        print(f"{count} sequences from seed {seed}, {differences} with a difference")
        if not differences:
            print("differential: done")
    finally:
        shutil.rmtree(directory, ignore_errors=True)

main(*sys.argv[1:])
