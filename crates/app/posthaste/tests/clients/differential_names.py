# Part of the differential test: names of mailboxes. `differential.py` stands after this text; its
# functions are used here.

NAMES_USED = ["a", "a/b", "a/b/c", "d", "d/e", "ä", "x y"]
PATTERNS = ["*", "%", "a/%", "a*", "%/%", "a/b", "d/*", "nothing"]
RETURNS = ["", "", " RETURN (CHILDREN)", " RETURN (SUBSCRIBED)", " RETURN (STATUS (MESSAGES UIDNEXT UNSEEN))"]

def utf7(name):
    """RFC 3501 §5.1.3, for the one name of the list that needs it."""
    return name.replace("ä", "&AOQ-")

def name_command(r, top):
    """A kind and a command about names below `top`."""
    one = lambda: f'"{top}/{utf7(r.choice(NAMES_USED))}"'
    pattern = f'"{top}/{r.choice(PATTERNS)}"'
    choice = r.random()
    if choice < 0.2:
        return "CREATE", f"CREATE {one()}"
    if choice < 0.3:
        return "DELETE", f"DELETE {one()}"
    if choice < 0.42:
        return "RENAME", f"RENAME {one()} {one()}"
    if choice < 0.57:
        return "SUBSCRIBE", f"{r.choice(['SUBSCRIBE', 'SUBSCRIBE', 'UNSUBSCRIBE'])} {one()}"
    if choice < 0.65:
        return "LIST", f'LSUB "" {pattern}'
    if choice < 0.7:
        return "STATUS", f"STATUS {one()} (MESSAGES UIDNEXT UNSEEN)"
    if choice < 0.78:
        return "LIST", f'LIST (SUBSCRIBED) "" {pattern}{r.choice(RETURNS[:3])}'
    if choice < 0.84:
        return "LIST", f'LIST "" ({pattern} "{top}/{r.choice(PATTERNS)}"){r.choice(RETURNS)}'
    return "LIST", f'LIST "" {pattern}{r.choice(RETURNS)}'

def names_meaning(text, untagged, tagged):
    """The status, the attributes of each name that the command asked for, and STATUS by name."""
    made = {"status": tagged.split(b" ", 1)[0].decode()}
    compared = {"\\noselect", "\\nonexistent"}
    if "SUBSCRIBED" in text:
        compared.add("\\subscribed")
    if "CHILDREN" in text:
        compared |= {"\\haschildren", "\\hasnochildren"}
    for line in untagged:
        data = values(line[2:])
        if data[0] in ("LIST", "LSUB"):
            name = data[3] if isinstance(data[3], str) else data[3].decode()
            made.setdefault(data[0], {})[name] = sorted({flag.lower() for flag in data[1]} & compared)
        elif data[0] == "STATUS":
            name = data[1] if isinstance(data[1], str) else data[1].decode()
            made.setdefault("status of", {})[name] = dict(zip(data[2][::2], data[2][1::2]))
    return made

def is_known_to_differ(session, kind, text):
    """Names of which servers may think differently (rows 26 and 27)."""
    exists = lambda name: session.ask(f'STATUS "{name}" (UIDNEXT)'.encode())[1].startswith(b"OK")
    names = re.findall(r'"([^"]*)"', text)
    if kind == "SUBSCRIBE":
        return not exists(names[0])
    if kind in ("CREATE", "RENAME"):
        return not exists(names[-1].rpartition("/")[0])
    return kind == "DELETE" and bool(session.ask(f'LIST "" "{names[0]}/%"'.encode())[0])

def names_sequence(seed, sessions):
    """Creates, renames, removes, subscribes and lists names."""
    r = random.Random(f"names {seed}")
    top, pair = f"n{seed}", sessions[0]
    both(pair, "CREATE", (), f"CREATE {top}".encode())
    for _ in range(40):
        kind, text = name_command(r, top)
        if is_known_to_differ(pair[0], kind, text):
            continue
        ours, theirs = [names_meaning(text, *session.ask(text.encode())) for session in pair]
        if ours != theirs:
            raise Differs(f"{text}\n" + "\n".join(unlike("", ours, theirs)))
    for session in pair:
        # The deepest first.
        for name in sorted((values(line[2:])[3] for line in session.ask(f'LIST "" "{top}/*"'.encode())[0]), key=str, reverse=True):
            name = name if isinstance(name, str) else name.decode()
            session.ask(f'UNSUBSCRIBE "{name}"'.encode())
            session.ask(f'DELETE "{name}"'.encode())
    both(pair, "LIST", (), f'LIST "" "{top}/*"'.encode())
    both(pair, "DELETE", (), f"DELETE {top}".encode())
