# Part of the differential test: sessions that do not know what another session has removed, and
# messages that are made of others. `differential.py` stands after this text; its functions are used
# here.

class View:
    """What a client knows of an open mailbox: the UID of each message, by number."""

    def __init__(self, session):
        self.session = session
        untagged, _ = session.ask(b"UID SEARCH ALL")
        found = [text for text in untagged if text.startswith(b"* SEARCH")]
        self.uids = sorted(map(int, found[0].split()[2:]))

    def ask(self, command):
        """Untagged responses. Each number in them means the message that the client knows by it."""
        untagged, tagged = self.session.ask(command.encode())
        for text in untagged:
            found = re.match(rb"\* (\d+) (EXPUNGE|FETCH)", text)
            if not found:
                continue
            number = int(found[1])
            if number > len(self.uids):
                raise Differs(f"{command}: {self.session.name} says {text!r} of {len(self.uids)} messages")
            if found[2] == b"EXPUNGE":
                del self.uids[number - 1]
                continue
            data = values(text[found.end():])[0]
            items = dict(zip([name.upper() for name in data[::2]], data[1::2]))
            if "UID" in items and int(items["UID"]) != self.uids[number - 1]:
                raise Differs(f"{command}: {self.session.name} says {text!r} of UID {self.uids[number - 1]}")
        if tagged.startswith(b"BAD"):
            raise Differs(f"{command}: {self.session.name} says {tagged!r}")
        return untagged

def stale_command(r):
    """What a session does with one message. Flags are only added: what a client does not know of
    changes nothing then."""
    flags = " ".join(r.sample([flag for flag in FLAGS if flag != "\\Deleted"], r.randint(1, 2)))
    choice = r.random()
    if choice < 0.3:
        return [f"STORE NUMBER +FLAGS.SILENT ({flags})"]
    if choice < 0.4:
        return [f"UID STORE UNIQUE +FLAGS.SILENT ({flags})"]
    if choice < 0.6:
        return ["FETCH NUMBER (UID FLAGS)"]
    if choice < 0.7:
        return ["UID FETCH UNIQUE (FLAGS)"]
    if choice < 0.8:
        return ["SEARCH UID UNIQUE"]
    return ["UID STORE UNIQUE +FLAGS.SILENT (\\Deleted)", "UID EXPUNGE UNIQUE"]

def stale_sequence(seed, sessions):
    """Two sessions change a mailbox and remove messages, mostly without a NOOP. When a server reports
    the changes is its own choice, so each server is asked by the numbers that it has reported."""
    r = random.Random(f"stale {seed}")
    box = f"s{seed}"
    for session in sessions[0]:
        session.ask(f"DELETE {box}".encode())
    both(sessions[0], "CREATE", (), f"CREATE {box}".encode())
    for _ in range(r.randint(5, 12)):
        both(sessions[0], *append(r, box))
    for pair in sessions:
        both(pair, "SELECT", (), f"SELECT {box}".encode())
    views = [[View(session) for session in pair] for pair in sessions]
    for _ in range(30):
        pair = r.choice(views)
        common = [uid for uid in pair[0].uids if uid in pair[1].uids]
        if not common:
            break
        uid, commands = r.choice(common), stale_command(r)
        for view in pair:
            for command in commands:
                # A message may be removed by the command before.
                number = view.uids.index(uid) + 1 if uid in view.uids else 0
                text = command.replace("NUMBER", str(number)).replace("UNIQUE", str(uid))
                for answer in view.ask(text):
                    if answer.startswith(b"* SEARCH") and answer.split()[2:] not in ([], [b"%d" % number]):
                        raise Differs(f"{text}: {view.session.name} says {answer!r}, not {number}")
        if r.random() < 0.15:
            for view in pair:
                view.ask("NOOP")
    for pair, known in zip(sessions, views):
        for view in known:
            view.ask("NOOP")
        if known[0].uids != known[1].uids:
            raise Differs(f"stale: {known[0].uids} and {known[1].uids} are left")
        both(pair, "FETCH", {"UID", "FLAGS"}, b"UID FETCH 1:* (UID FLAGS)")
        both(pair, "CLOSE", (), b"UNSELECT")
    both(sessions[0], "DELETE", (), f"DELETE {box}".encode())

def several(r, box):
    """MULTIAPPEND (RFC 3502) of two or three messages."""
    made = f"APPEND {box}".encode()
    for _ in range(r.randint(2, 3)):
        text = message(r)
        flags = " ".join(r.sample(FLAGS, r.randint(0, 2)))
        made += f' ({flags}) "{r.randint(1, 28):02}-Feb-2021 10:30:00 +0000" {{{len(text)}}}'.encode() + b"\0" + text
    return made

def catenated(r, box, exists):
    """CATENATE (RFC 4469) of whole lines: others may be stored with other line ends."""
    url = lambda section: f'URL "/{box}/;UID={r.randint(1, exists)}{section}"'.encode()
    start = f"APPEND {box} CATENATE (".encode()
    text = words(r).encode() + b"\r\n"
    header = b"Subject: " + words(r).encode("ascii", "replace") + b"\r\n\r\n"
    return start + r.choice([
        lambda: url("") + b")",
        lambda: url("/;SECTION=HEADER") + b" TEXT {%d}\0%s)" % (len(text), text),
        lambda: b"TEXT {%d}\0%s " % (len(header), header) + url("/;SECTION=TEXT") + b")",
        lambda: url("/;SECTION=HEADER") + b" " + url("/;SECTION=TEXT") + b")",
    ])()

def pieces_sequence(seed, sessions):
    """Appends several messages at once, and messages that are made of others."""
    r = random.Random(f"pieces {seed}")
    box, pair = f"p{seed}", sessions[0]
    for session in pair:
        session.ask(f"DELETE {box}".encode())
    both(pair, "CREATE", (), f"CREATE {box}".encode())
    for _ in range(3):
        both(pair, *append(r, box))
    both(pair, "SELECT", (), f"SELECT {box}".encode())
    for _ in range(6):
        made = several(r, box) if r.random() < 0.4 else catenated(r, box, 3)
        both(pair, "APPEND", (), made)
    both(pair, "NOOP", (), b"NOOP")
    both(pair, "FETCH", {"UID", "FLAGS", "RFC822.SIZE", "BODY"}, b"FETCH 1:* (UID FLAGS RFC822.SIZE BODY.PEEK[])")
    both(pair, "CLOSE", (), b"UNSELECT")
    both(pair, "DELETE", (), f"DELETE {box}".encode())
