# Part of the differential test: what the extensions for reading return. PARTIAL (RFC 5267, RFC
# 9394), SAVE with other options (RFC 5182), BINARY (RFC 3516), PREVIEW (RFC 8970), SAVEDATE (RFC
# 8514), SIZE of STATUS (RFC 8438), mod-sequences (RFC 7162). `differential.py` stands after this
# text; its functions are used here. Dovecot has neither UPDATE of RFC 5267 nor negative ranges.

def compare(pair, text, of):
    """Sends the same command to both servers. `of` makes a value of each answer."""
    ours, theirs = [of(*session.ask(text)) for session in pair]
    if ours != theirs:
        raise Differs(f"{text!r}\n" + "\n".join(unlike("", ours, theirs)))

def status_word(tagged):
    return tagged.split(b" ", 1)[0].decode()

def new_mailbox(pair, box):
    """Makes an empty mailbox, also if a run before left one."""
    for session in pair:
        session.ask(f"DELETE {box}".encode())
    both(pair, "CREATE", (), f"CREATE {box}".encode())

def left(pair, boxes):
    both(pair, "CLOSE", (), b"UNSELECT")
    for box in boxes:
        both(pair, "DELETE", (), f"DELETE {box}".encode())

# ---- results of searches ----

def returned(untagged, tagged):
    """The options of ESEARCH, in the order of a SORT."""
    made = {"status": status_word(tagged)}
    for text in untagged:
        if not text.startswith(b"* ESEARCH"):
            continue
        text = text.decode()
        partial = re.search(r"PARTIAL \((\S+) (\S+)\)", text)
        if partial:
            found = [] if partial[2].upper() == "NIL" else in_order(partial[2])
            made["PARTIAL"] = (partial[1], found)
            text = text.replace(partial[0], "")
        for name, value in re.findall(r" (MIN|MAX|COUNT|ALL) ([\d:,]+)", text):
            made[name] = in_order(value)
    return made

def return_command(r, exists):
    uid = r.choice(["", "UID "])
    options = r.sample(["MIN", "MAX", "COUNT"], r.randint(0, 3))
    first = r.randint(1, 8)
    page = f"PARTIAL {first}:{first + r.randint(0, 4)}"
    choice = r.random()
    if choice < 0.3:
        # RFC 5182 §2.4: MIN and MAX alone save what they name.
        return [f"{uid}SEARCH RETURN ({' '.join(options + ['SAVE'])}) CHARSET UTF-8 ".encode() + key(r, exists),
                f"{r.choice(['', 'UID '])}SEARCH RETURN (ALL COUNT) $".encode()]
    options.append(r.choice([page, page, "ALL"]))
    r.shuffle(options)
    returns = f"RETURN ({' '.join(options)})"
    if choice < 0.75:
        return [f"{uid}SEARCH {returns} CHARSET UTF-8 ".encode() + key(r, exists)]
    # Not by text: equal texts of older and newer messages (row 10).
    keys = " ".join(r.choice(["", "REVERSE "]) + name for name in r.sample(["ARRIVAL", "DATE", "SIZE"], r.randint(1, 2)))
    return [f"{uid}SORT {returns} ({keys}) UTF-8 ".encode() + r.choice([b"ALL", b"UNSEEN", key(r, exists)])]

def returns_sequence(seed, sessions):
    """Pages of results, and saved results."""
    r = random.Random(f"returns {seed}")
    box, pair = f"t{seed}", sessions[0]
    new_mailbox(pair, box)
    for _ in range(r.randint(3, 8)):
        both(pair, *append(r, box))
    both(pair, "SELECT", (), f"SELECT {box}".encode())
    for _ in range(20):
        for text in return_command(r, pair[0].exists):
            compare(pair, text, returned)
    left(pair, [box])

# ---- BINARY ----

BINARY_ITEMS = ["BINARY.PEEK[1]", "BINARY.PEEK[1]<0.10>", "BINARY.PEEK[1]<7.40>", "BINARY.PEEK[1]<999.5>", "BINARY[1]", "BINARY.SIZE[1]"]

def binary_message(r, parts):
    """Text in an encoding, or two of them; what is sent as literal8 has no NUL (row 18)."""
    made = []
    for _ in range(parts):
        encoding = r.choice(["7bit", "quoted-printable", "base64", "8bit"])
        kind = r.choice(["text/plain; charset=utf-8", "application/octet-stream"])
        text = "".join(words(r) + "\r\n" for _ in range(r.randint(0, 4)))
        header = f"Content-Type: {kind}\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
        made.append(header.encode() + content(r, text, encoding))
    start = f"Subject: {words(r, among=['one', 'two'])}\r\nMIME-Version: 1.0\r\n".encode()
    if parts == 1:
        return start + made[0]
    body = b"".join(b"--b\r\n" + one + b"\r\n" for one in made)
    return start + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + body + b"--b--\r\n"

def binary_sequence(seed, sessions):
    """Decoded parts, whole and in pieces, of messages that came as literals of both kinds."""
    r = random.Random(f"binary {seed}")
    box, pair = f"y{seed}", sessions[0]
    new_mailbox(pair, box)
    counts = []
    for _ in range(r.randint(2, 5)):
        counts.append(r.choice([1, 1, 2]))
        made = binary_message(r, counts[-1])
        tilde = r.choice(["", "~"])
        both(pair, "APPEND", (), f'APPEND {box} () "01-Feb-2021 10:30:00 +0000" {tilde}{{{len(made)}}}'.encode() + b"\0" + made)
    both(pair, "SELECT", (), f"SELECT {box}".encode())
    for number, parts in enumerate(counts, 1):
        # The size of a part beside an encoded one differs (row 5).
        items = BINARY_ITEMS if parts == 1 else [item.replace("[1]", r.choice(["[1]", "[2]"])) for item in BINARY_ITEMS[:-1]]
        for item in items:
            both(pair, "FETCH", {"BINARY", "BINARY.SIZE"}, f"FETCH {number} ({item})".encode())
    both(pair, "FETCH", {"FLAGS"}, b"FETCH 1:* (FLAGS)")
    left(pair, [box])

# ---- PREVIEW ----

def preview_message(r):
    """A letter with one text, plain or HTML or both, of at most 200 characters (row 29)."""
    text, encoding = words(r, 1, 20), r.choice(["quoted-printable", "base64", "8bit"])
    head = lambda kind: f"Content-Type: {kind}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode()
    lines = text.replace(" ", r.choice([" ", "\r\n", "  ", " \r\n"])) + "\r\n"
    plain = head("text/plain") + content(r, lines, encoding)
    html = head("text/html") + content(r, f"<html><body><p>{text}</p></body></html>\r\n", encoding)
    start = f"Subject: {words(r)}\r\nMIME-Version: 1.0\r\n".encode()
    both_kinds = b"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n" + plain + b"\r\n--b\r\n" + html + b"\r\n--b--\r\n"
    return start + r.choice([plain, plain, html, both_kinds])

def preview_sequence(seed, sessions):
    r = random.Random(f"preview {seed}")
    box, pair = f"v{seed}", sessions[0]
    new_mailbox(pair, box)
    for _ in range(r.randint(2, 6)):
        made = preview_message(r)
        both(pair, "APPEND", (), f'APPEND {box} () "01-Feb-2021 10:30:00 +0000" {{{len(made)}}}'.encode() + b"\0" + made)
    both(pair, "SELECT", (), f"SELECT {box}".encode())
    both(pair, "FETCH", {"PREVIEW"}, f"{r.choice(['', 'UID '])}FETCH 1:* (PREVIEW)".encode())
    left(pair, [box])

# ---- SIZE of STATUS, SAVEDATE ----

def saved_sequence(seed, sessions):
    """Sums of sizes, and searches by the day that messages came into the mailbox."""
    r = random.Random(f"saved {seed}")
    box, pair = f"w{seed}", sessions[0]
    new_mailbox(pair, box)
    both(pair, "CREATE", (), f"CREATE {box}/sub".encode())
    both(pair, "SELECT", (), f"SELECT {box}".encode())
    for _ in range(12):
        choice = r.random()
        if choice < 0.4:
            both(pair, *append(r, box))
            both(pair, "NOOP", (), b"NOOP")
        elif choice < 0.6 and pair[0].exists:
            way = r.choice(["COPY", "MOVE"])
            both(pair, way, (), f"{way} {r.randint(1, pair[0].exists)} {box}/sub".encode())
        elif choice < 0.8:
            both(pair, "STATUS", (), f"STATUS {box}/sub ({' '.join(r.sample(['MESSAGES', 'UIDNEXT', 'UNSEEN', 'SIZE'], 3))})".encode())
        else:
            # Far from today, for servers may be in another zone.
            name, year = r.choice(["SAVEDSINCE", "SAVEDBEFORE", "SAVEDON"]), r.choice([2001, 2099])
            both(pair, "SEARCH", (), f"SEARCH {name} 3-Feb-{year}".encode())
    both(pair, "SEARCH", (), b"SEARCH SAVEDATESUPPORTED")
    left(pair, [box + "/sub", box])

# ---- mod-sequences ----

def ranks(untagged, tagged):
    """The status, and for each UID the rank of its mod-sequence. Servers count differently, in the same
    order."""
    found = {}
    for text in untagged:
        fetch = re.match(rb"\* \d+ FETCH ", text)
        items = values(text[fetch.end():])[0] if fetch else []
        items = dict(zip([name.upper() for name in items[::2]], items[1::2]))
        if "UID" in items and "MODSEQ" in items:
            found[int(items["UID"])] = int(items["MODSEQ"][0])
    order = sorted(set(found.values()))
    return {"status": status_word(tagged), "ranks": {uid: order.index(at) for uid, at in found.items()}}

def without_modseq(untagged, tagged):
    """Numbers of SEARCH and ESEARCH, flags by UID, MODIFIED."""
    return resync_meaning([re.sub(rb" \(?MODSEQ \d+\)?", b"", text) for text in untagged], tagged)

def condstore_sequence(seed, sessions):
    """Changes flags, and asks which messages have changed since. Each change sets a keyword that no
    message has, so no server may leave it out (row 2)."""
    r = random.Random(f"condstore {seed}")
    box, pair = f"c{seed}", sessions[0]
    new_mailbox(pair, box)
    both(pair, "ENABLE", (), b"ENABLE CONDSTORE")
    both(pair, "SELECT", (), f"SELECT {box}".encode())
    # Dovecot counts from the first time that it is asked.
    known = [status_of(pair, box, "HIGHESTMODSEQ")]
    for _ in range(r.randint(3, 6)):
        both(pair, *append(r, box))
        both(pair, "NOOP", (), b"NOOP")
    for number in range(15):
        pick = lambda: r.randint(1, 6)
        uids, flags = r.choice([f"{pick()}:{pick()}", f"{pick()},{pick()}", "1:*"]), " ".join([f"k{number}"] + r.sample(FLAGS, 1))
        both(pair, "STORE", (), f"UID STORE {uids} {r.choice(['+FLAGS', 'FLAGS'])}.SILENT ({flags})".encode())
        if r.random() < 0.4:
            known.append(status_of(pair, box, "HIGHESTMODSEQ"))
        at = r.choice(known)
        which = r.choice(["ALL", "UNSEEN", "NOT FLAGGED"])
        text, of = r.choice([
            ("UID FETCH 1:* (MODSEQ) (CHANGEDSINCE MODSEQ_)", ranks),
            ("FETCH 1:* (UID MODSEQ FLAGS) (CHANGEDSINCE MODSEQ_)", ranks),
            ("FETCH 1:* (UID FLAGS) (CHANGEDSINCE MODSEQ_)", without_modseq),
            (f"UID SEARCH MODSEQ MODSEQ_ {which}", without_modseq),
            (f"SEARCH RETURN (MIN MAX COUNT) MODSEQ MODSEQ_ {which}", without_modseq),
            (f"UID STORE {uids} (UNCHANGEDSINCE MODSEQ_) +FLAGS (u{number})", without_modseq),
        ])
        ours, theirs = [of(*session.ask(text.replace("MODSEQ_", str(since)).encode())) for session, since in zip(pair, at)]
        if ours != theirs:
            raise Differs(f"{text} {at}\n" + "\n".join(unlike("", ours, theirs)))
    left(pair, [box])
