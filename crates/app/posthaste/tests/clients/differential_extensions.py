# Part of the differential test: extensions for mailboxes. LIST-EXTENDED (RFC 5258), LIST-STATUS
# (RFC 5819), SPECIAL-USE (RFC 6154), NAMESPACE (RFC 2342), METADATA (RFC 5464), MOVE (RFC 6851),
# response codes (RFC 5530), NOTIFY (RFC 5465). `differential.py` stands after this text; its
# functions are used here, and those of `differential_reads.py`. URLAUTH (RFC 4467) is left out:
# Dovecot needs a service of its own for it.

# ---- LIST ----

TREE = ["a", "a/b", "a/b/c", "d", "d/e", "f"]
TREE_PATTERNS = ["*", "%", "%/%", "a/%", "a*", "d", "d/*", "a/b/c", "*c", "nothing"]

def tree_meaning(compared):
    """Attributes, CHILDINFO and STATUS by name."""
    def of(untagged, tagged):
        made = {"status": status_word(tagged)}
        for line in untagged:
            data = values(line[2:])
            text = lambda value: value if isinstance(value, str) else value.decode()
            if data[0] == "LIST":
                made.setdefault("list", {})[text(data[3])] = sorted({flag.lower() for flag in data[1]} & compared)
                extended = data[4] if len(data) > 4 else []
                for name, value in zip(extended[::2], extended[1::2]):
                    if text(name).upper() == "CHILDINFO":
                        made.setdefault("childinfo", {})[text(data[3])] = sorted(text(one).upper() for one in value)
            elif data[0] == "STATUS":
                made.setdefault("status of", {})[text(data[1])] = dict(zip(data[2][::2], data[2][1::2]))
        return made
    return of

def tree_command(r, top):
    """A LIST, and the attributes that it asks for."""
    select = r.choice(["", "", "()", "(SUBSCRIBED)", "(RECURSIVEMATCH SUBSCRIBED)", "(REMOTE)", "(SUBSCRIBED REMOTE)"])
    returns = r.sample(["SUBSCRIBED", "CHILDREN", "STATUS (MESSAGES SIZE UNSEEN)", "SPECIAL-USE"], r.randint(0, 3))
    one = lambda: f"{top}/{r.choice(TREE_PATTERNS)}"
    where = r.choice([f'"" "{one()}"', f'"" "{one()}"', f'"" ("{one()}" "{one()}")', f'"{top}/" "{r.choice(TREE_PATTERNS)}"'])
    if "RECURSIVEMATCH" in select:
        # Of two levels that both match, Dovecot lists the lower one alone (row 28).
        where = f'"" "{one()}"'
    compared = {"\\noselect", "\\nonexistent"}
    if "SUBSCRIBED" in select or "SUBSCRIBED" in returns:
        compared.add("\\subscribed")
    if "CHILDREN" in returns:
        compared |= {"\\haschildren", "\\hasnochildren"}
    # RFC 5258 §3: without an option it is another command.
    tail = f" RETURN ({' '.join(returns)})" if returns or select == "()" else ""
    return f"LIST {select + ' ' if select else ''}{where}{tail}", compared

def tree_sequence(seed, sessions):
    """Lists names that are all mailboxes (row 27), with every option."""
    r = random.Random(f"tree {seed}")
    top, pair = f"l{seed}", sessions[0]
    for name in [top] + [f"{top}/{name}" for name in TREE]:
        for session in pair:
            session.ask(f"CREATE {name}".encode())
    both(pair, *append(r, f"{top}/a"))
    for _ in range(25):
        if r.random() < 0.3:
            both(pair, "SUBSCRIBE", (), f"{r.choice(['SUBSCRIBE', 'SUBSCRIBE', 'UNSUBSCRIBE'])} {top}/{r.choice(TREE)}".encode())
        text, compared = tree_command(r, top)
        compare(pair, text.encode(), tree_meaning(compared))
    for name in reversed(TREE):
        for session in pair:
            session.ask(f"UNSUBSCRIBE {top}/{name}".encode())
        both(pair, "DELETE", (), f"DELETE {top}/{name}".encode())
    both(pair, "DELETE", (), f"DELETE {top}".encode())

# The mailboxes with a special use, on both servers.
SPECIAL_NAMES = ["Drafts", "Sent", "Trash", "Junk", "Archive"]
SPECIAL = {f"\\{name.lower()}" for name in SPECIAL_NAMES}

def special_sequence(seed, sessions):
    """Special uses, and the namespace of one's own."""
    r = random.Random(f"special {seed}")
    pair = sessions[0]

    def of(untagged, tagged):
        # Other mailboxes are those of other sequences.
        made = tree_meaning(SPECIAL)(untagged, tagged)
        made["list"] = {name: flags for name, flags in made.get("list", {}).items() if flags}
        return made

    for _ in range(6):
        pattern = r.choice(["*", "%", "S*", "*a*", "Drafts", "Nothing"])
        text = r.choice([f'LIST (SPECIAL-USE) "" "{pattern}"', f'LIST "" "{pattern}" RETURN (SPECIAL-USE)',
                         f'LIST (SPECIAL-USE) "" "{pattern}" RETURN (SPECIAL-USE CHILDREN)'])
        compare(pair, text.encode(), of)
    # Posthaste has namespaces of others besides.
    own = lambda untagged, tagged: [values(line[2:])[1] for line in untagged if line.startswith(b"* NAMESPACE")]
    compare(pair, b"NAMESPACE", own)

# ---- METADATA ----

def with_sub(pair, box):
    """Makes a mailbox and one below it. Their names."""
    boxes = [box, box + "/sub"]
    for name in boxes:
        new_mailbox(pair, name)
    return boxes

ENTRIES = ["/private/comment", "/shared/comment", "/private/vendor/x/one", "/private/vendor/x/one/two", "/shared/vendor/x/one"]

def metadata_meaning(untagged, tagged):
    """The values of each mailbox, and the code. An entry without a value may be named with NIL."""
    made = {"status": status_word(tagged)}
    code = re.match(rb"\w+ \[METADATA (\w+ ?\d*)\]", tagged)
    if code:
        made["code"] = code[1]
    for line in untagged:
        if line.startswith(b"* METADATA"):
            data = values(line[2:])
            name = data[1] if isinstance(data[1], str) else data[1].decode()
            for entry, value in zip(data[2][::2], data[2][1::2]):
                if value is not None:
                    entry = entry if isinstance(entry, str) else entry.decode()
                    made.setdefault(name, {})[entry.lower()] = value
    return made

def metadata_command(r, boxes):
    box = r.choice(boxes)
    if r.random() < 0.4:
        pairs = []
        for entry in r.sample(ENTRIES, r.randint(1, 3)):
            text = words(r, 0, 4).encode()
            quoted = b'"%s"' % text.decode().encode("ascii", "ignore")
            value = r.choice([b"NIL", b"{%d+}\r\n%s" % (len(text), text), quoted])
            pairs.append(entry.encode() + b" " + value)
        return f"SETMETADATA {box} (".encode() + b" ".join(pairs) + b")"
    options = r.sample([f"DEPTH {r.choice(['0', '1', 'infinity'])}", f"MAXSIZE {r.choice([0, 3, 10, 100])}"], r.randint(0, 2))
    wanted = r.sample(ENTRIES + ["/private/vendor/x", "/PRIVATE/Comment"], r.randint(1, 3))
    listed = f"({' '.join(wanted)})" if len(wanted) > 1 or r.random() < 0.5 else wanted[0]
    before = f"({' '.join(options)}) " if options else ""
    return f"GETMETADATA {before}{box} {listed}".encode()

def metadata_sequence(seed, sessions):
    r = random.Random(f"metadata {seed}")
    pair = sessions[0]
    boxes = with_sub(pair, f"m{seed}")
    for _ in range(25):
        compare(pair, metadata_command(r, boxes), metadata_meaning)
    left(pair, reversed(boxes))

# ---- MOVE ----

def move_sequence(seed, sessions):
    """Moves messages between two mailboxes and within one, and removes some by UID."""
    r = random.Random(f"move {seed}")
    pair = sessions[0]
    boxes = with_sub(pair, f"x{seed}")
    for name in boxes:
        for _ in range(r.randint(1, 4)):
            both(pair, *append(r, name))
    for _ in range(10):
        both(pair, "SELECT", (), f"SELECT {r.choice(boxes)}".encode())
        exists, uid = pair[0].exists, r.choice(["", "UID "])
        if not exists and not uid:
            continue
        set_ = number_set(r, 8 if uid else exists)
        choice = r.random()
        if choice < 0.7:
            both(pair, "MOVE", (), f"{uid}MOVE {set_} {r.choice(boxes)}".encode())
        else:
            both(pair, "STORE", (), f"{uid}STORE {set_} +FLAGS.SILENT (\\Deleted)".encode())
            both(pair, "EXPUNGE", (), f"UID EXPUNGE {number_set(r, 8)}".encode())
        both(pair, "NOOP", (), b"NOOP")
        both(pair, "FETCH", {"UID", "FLAGS", "RFC822.SIZE"}, b"UID FETCH 1:* (UID FLAGS RFC822.SIZE)")
    left(pair, reversed(boxes))

# ---- response codes ----

def code_meaning(untagged, tagged):
    code = re.match(rb"(?:OK|NO|BAD) \[([A-Z-]+)", tagged)
    return {"status": status_word(tagged), "code": code and code[1].decode()}

CODES = ["CREATE THIS", "DELETE THIS/none", "RENAME THIS/none THIS/x", "RENAME THIS/sub THIS", "APPEND THIS/none {1}\0x", "STATUS THIS/none (MESSAGES)",
         "COPY 1 THIS/none", "MOVE 1 THIS/none", "UID COPY 99 THIS", "UID MOVE 99 THIS/sub", "UID EXPUNGE 99", "UID FETCH 99 (FLAGS)",
         "CREATE INBOX", "DELETE INBOX", "CREATE THIS//b", "FETCH 0 (FLAGS)", "FETCH 99 (FLAGS)", "SEARCH CHARSET x-none TEXT a",
         "SORT (SUBJECT) x-none ALL", "THREAD NOTHING UTF-8 ALL", "STATUS THIS (NOTHING)", "STATUS THIS ()",
         "SELECT \"\"", "EXAMINE THIS/none", "SELECT THIS/none", "FETCH 1 (NOTHING)", "SEARCH NOTHING", "SEARCH RETURN (NOTHING) ALL", "NOTHING",
         "GETMETADATA THIS/none /private/comment", "SETMETADATA THIS/none (/private/comment \"a\")", "SETMETADATA THIS (/other/x \"a\")",
         "UID NOTHING 1", "LIST (NOTHING) \"\" \"*\"", "ENABLE NOTHING", "CREATE \"\"", "UNSELECT", "CHECK"]

def codes_sequence(seed, sessions):
    """Commands that mostly fail. A code that one of the servers leaves out is not compared."""
    r = random.Random(f"codes {seed}")
    box, pair = f"e{seed}", sessions[0]
    boxes = with_sub(pair, box)
    both(pair, *append(r, box))
    for text in r.sample(CODES, 20):
        both(pair, "SELECT", (), f"SELECT {box}".encode())
        text = text.replace("THIS", box)
        ours, theirs = [code_meaning(*session.ask(text.encode())) for session in pair]
        if ours["code"] is None or theirs["code"] is None:
            ours["code"] = theirs["code"] = None
        if ours != theirs:
            raise Differs(f"{text}\n" + "\n".join(unlike("", ours, theirs)))
    left(pair, reversed(boxes))

# ---- NOTIFY ----

class Known:
    """What was reported to a session of its mailbox: UIDs and flags."""

    def __init__(self, session):
        self.session, self.uids, self.flags = session, [], {}

    def ask(self, text):
        untagged, tagged = self.session.ask(text)
        for line in untagged:
            found = re.match(rb"\* (\d+) (EXISTS|EXPUNGE|FETCH)", line)
            if not found:
                continue
            number = int(found[1])
            if found[2] == b"EXPUNGE":
                self.uids[number - 1:number] = []
            elif found[2] == b"EXISTS":
                self.uids += [None] * (number - len(self.uids))
            else:
                data = values(line[found.end():])[0]
                items = dict(zip([name.upper() for name in data[::2]], data[1::2]))
                if "UID" in items:
                    self.uids[number - 1] = int(items["UID"])
                    if "FLAGS" in items:
                        self.flags[int(items["UID"])] = sorted(flag.lower() for flag in items["FLAGS"] if flag.lower() != "\\recent")
        return tagged

    def messages(self):
        return [(uid, self.flags.get(uid)) for uid in self.uids]

def notify_sequence(seed, sessions):
    """A session gets reports of what another one does in its mailbox. They may come at any time, so it
    asks NOOP before the comparison."""
    r = random.Random(f"notify {seed}")
    box, quiet, busy = f"f{seed}", sessions[0], sessions[1]
    new_mailbox(busy, box)
    both(busy, *append(r, box))
    knowing = [Known(session) for session in quiet]
    for pair in sessions:
        both(pair, "SELECT", (), f"SELECT {box}".encode())
    for one in knowing:
        one.uids = [None]
        one.ask(b"FETCH 1:* (UID FLAGS)")
    compare(quiet, b"NOTIFY SET (SELECTED (MessageNew (UID FLAGS) MessageExpunge FlagChange))", code_meaning)
    for number in range(10):
        choice = r.random()
        both(busy, "NOOP", (), b"NOOP")
        if choice < 0.4 or not busy[0].exists:
            both(busy, *append(r, box))
        elif choice < 0.8:
            both(busy, "STORE", (), f"STORE {r.randint(1, busy[0].exists)} +FLAGS.SILENT (n{number})".encode())
        else:
            both(busy, "STORE", (), f"STORE {r.randint(1, busy[0].exists)} +FLAGS.SILENT (\\Deleted)".encode())
            both(busy, "EXPUNGE", (), b"EXPUNGE")
        for one in knowing:
            one.ask(b"NOOP")
        ours, theirs = [one.messages() for one in knowing]
        if ours != theirs:
            raise Differs("after NOTIFY and NOOP\n" + "\n".join(unlike("", ours, theirs)))
    compare(quiet, b"NOTIFY NONE", code_meaning)
    for pair in sessions:
        both(pair, "CLOSE", (), b"UNSELECT")
    both(busy, "DELETE", (), f"DELETE {box}".encode())
