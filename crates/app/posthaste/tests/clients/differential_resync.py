# Part of the differential test: changes by mod-sequence (RFC 7162), saved results (RFC 5182), and
# messages that another session has removed. `differential.py` stands after this text; its functions
# are used here.

def status_of(pair, box, item):
    """A number of STATUS, on each server."""
    made = []
    for session in pair:
        untagged, _ = session.ask(f"STATUS {box} ({item})".encode())
        made.append(int(re.search(rf"{item} (\d+)".encode(), b"".join(untagged))[1]))
    return made

def resync_meaning(untagged, tagged):
    """The status, the flags by UID, the UIDs that vanished earlier, the numbers of SEARCH and of MODIFIED."""
    made = {"status": tagged.split(b" ", 1)[0].decode()}
    modified = re.search(rb"\[MODIFIED ([\d:,]+)\]", tagged)
    if modified:
        made["modified"] = numbers(modified[1].decode())
    for text in untagged:
        fetch = re.match(rb"\* (\d+) FETCH ", text)
        if fetch:
            data = values(text[fetch.end():])[0]
            items = dict(zip([name.upper() for name in data[::2]], data[1::2]))
            if "UID" in items and "FLAGS" in items:
                flags = sorted(flag.lower() for flag in items["FLAGS"] if flag.lower() != "\\recent")
                made.setdefault("fetch", {})[int(items["UID"])] = flags
        earlier = re.match(rb"\* VANISHED \(EARLIER\) ([\d:,]+)", text)
        if earlier:
            made.setdefault("vanished", set()).update(numbers(earlier[1].decode()))
        if text.startswith(b"* SEARCH"):
            made["search"] = sorted(map(int, re.sub(rb"\(MODSEQ \d+\)", b"", text).split()[2:]))
        elif text.startswith(b"* ESEARCH"):
            for name, value in re.findall(r"(MIN|MAX|COUNT|ALL) (\S+?)\)?(?=\s)", text.decode()):
                made[name] = numbers(value)
    return made

def resync(pair, commands):
    """Sends each server its command, and compares."""
    ours, theirs = [resync_meaning(*session.ask(command.encode())) for session, command in zip(pair, commands)]
    if ours != theirs:
        raise Differs(f"{commands[0]!r}\n" + "\n".join(unlike("", ours, theirs)))

def resync_command(r, known, number):
    """A command for each server, and whether it needs a NOOP before it. `known` has mod-sequences of former
    states, a pair for each. `number` makes a keyword that no message has, so each STORE changes something:
    servers need not give a new mod-sequence to a message that stays as it is (row 2)."""
    pick = lambda: r.randint(1, 12)
    uids = r.choice([lambda: "1:*", lambda: f"{pick()}:{pick()}", lambda: f"{pick()},{pick()}"])()
    at = r.choice(known)
    each = lambda text: [text.replace("MODSEQ", str(number)) for number in at]
    flags = " ".join([f"k{number}"] + r.sample(FLAGS, r.randint(0, 2)))
    choice = r.random()
    if choice < 0.2:
        return each(f"UID FETCH {uids} (FLAGS) (CHANGEDSINCE MODSEQ{r.choice(['', ' VANISHED'])})"), True
    if choice < 0.3:
        return each(f"UID STORE {uids} (UNCHANGEDSINCE MODSEQ) +FLAGS.SILENT ({flags})"), True
    if choice < 0.5:
        # Of these messages, another session may have removed some (RFC 2180 §4.2).
        return [f"UID STORE {uids} +FLAGS.SILENT ({flags})"] * 2, False
    if choice < 0.58:
        return [f"UID STORE {uids} +FLAGS.SILENT (\\Deleted k{number})"] * 2, False
    if choice < 0.66:
        return [f"UID EXPUNGE {uids}"] * 2, True
    if choice < 0.74:
        return [f"UID SEARCH RETURN (COUNT) {r.choice(['', 'NOT '])}{r.choice(['SEEN', 'DELETED', 'FLAGGED', 'UID ' + uids])}"] * 2, True
    if choice < 0.82:
        return [f"UID SEARCH RETURN (SAVE) {r.choice(['SEEN', 'UNSEEN', 'ALL', 'UID ' + uids])}"] * 2, True
    if choice < 0.92:
        return [r.choice(["UID FETCH $ (FLAGS)", "UID SEARCH UID $", "UID SEARCH RETURN (ALL) UID $ FLAGGED"])] * 2, True
    return [f"UID SEARCH {r.choice(['YOUNGER', 'OLDER'])} {r.choice([1000000, 1])}"] * 2, True

def resync_sequence(seed, sessions):
    """Two sessions change a mailbox, often without a NOOP between, and one asks for the changes."""
    r = random.Random(f"resync {seed}")
    box = f"r{seed}"
    for session in sessions[0]:
        session.ask(f"DELETE {box}".encode())
    both(sessions[0], "CREATE", (), f"CREATE {box}".encode())
    for _ in range(r.randint(3, 8)):
        both(sessions[0], *append(r, box))
    for pair in sessions:
        both(pair, "ENABLE", (), b"ENABLE QRESYNC")
        both(pair, "SELECT", (), f"SELECT {box}".encode())
    known = [status_of(sessions[0], box, "HIGHESTMODSEQ")]
    validity = status_of(sessions[0], box, "UIDVALIDITY")
    for number in range(25):
        pair = r.choice(sessions)
        commands, wants_noop = resync_command(r, known, number)
        if wants_noop:
            both(pair, "NOOP", (), b"NOOP")
        resync(pair, commands)
        if r.random() < 0.3:
            both(pair, "NOOP", (), b"NOOP")
            known.append(status_of(pair, box, "HIGHESTMODSEQ"))
        if r.random() < 0.1:
            both(pair, *append(r, box))
    # All that a client missed since a former state.
    for at in r.sample(known, min(3, len(known))):
        both(sessions[0], "CLOSE", (), b"UNSELECT")
        resync(sessions[0], [f"SELECT {box} (QRESYNC ({of} {number}))" for of, number in zip(validity, at)])
    for pair in sessions:
        both(pair, "CLOSE", (), b"UNSELECT")
    both(sessions[0], "DELETE", (), f"DELETE {box}".encode())
