"""How long clients wait for each command: imaplib, smtplib, curl, mbsync, msmtp, and raw sockets that split what they
send wherever a client might.

Run by `waits.rs`. Prints a line for each command of each round: client, protocol, command, milliseconds; with `missing`
in the last column for a client that is not installed. Nagle's algorithm is on everywhere, as clients leave it.
"""

import base64, imaplib, json, os, pty, re, shutil, smtplib, socket, ssl, subprocess, sys, time, zlib

given = json.loads(sys.argv[1])
USER, PASSWORD, DIR, ROUNDS = given["user"], given["password"], given["dir"], given["rounds"]
PORTS = given["ports"]
PATIENCE = 60
MAIL = b"From: ana@example.org\r\nSubject: waits\r\n\r\n" + b"A line of a message that is not large.\r\n" * 20
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE


def report(client, protocol, command, seconds):
    print(client, protocol, command, "%.3f" % (seconds * 1e3), sep="\t", flush=True)


def timed(client, protocol, command, work, *args):
    began = time.perf_counter()
    outcome = work(*args)
    report(client, protocol, command, time.perf_counter() - began)
    return outcome


# Python's imaplib


def imaplib_round(protocol):
    def ask(name, work, *args):
        answer = timed("imaplib", protocol, name, work, *args)
        assert answer[0] in ("OK", "BYE"), (name, answer)
        return answer

    def connect():
        if protocol == "imaps":
            return imaplib.IMAP4_SSL("127.0.0.1", PORTS["imaps"], ssl_context=TLS)
        return imaplib.IMAP4("127.0.0.1", PORTS["imap"])

    client = timed("imaplib", protocol, "connect", connect)
    if protocol == "imap STARTTLS":
        ask("STARTTLS", client.starttls, TLS)
    ask("LOGIN", client.login, USER, PASSWORD)
    ask("SELECT", client.select, "INBOX")
    ask("APPEND", client.append, "INBOX", "", None, MAIL)
    ask("FETCH of a body", client.fetch, "1", "(BODY.PEEK[])")
    ask("STORE", client.store, "1", "+FLAGS", "(\\Seen)")
    client.literal = b"waits"
    ask("SEARCH with a literal", client.search, "UTF-8", "SUBJECT")
    ask("COPY", client.copy, "1", "Archive")
    ask("NOOP", client.noop)
    ask("LOGOUT", client.logout)
    client = connect()
    plain = lambda _: b"\0%s\0%s" % (USER.encode(), PASSWORD.encode())
    ask("AUTHENTICATE", client.authenticate, "PLAIN", plain)
    client.logout()


# Python's smtplib


def smtplib_round(protocol):
    def connect():
        if protocol == "lmtp":
            return smtplib.LMTP("127.0.0.1", PORTS["lmtp"])
        if protocol == "submissions":
            return smtplib.SMTP_SSL("127.0.0.1", PORTS["submissions"], context=TLS)
        return smtplib.SMTP("127.0.0.1", PORTS["submission"])

    def ask(name, work, *args):
        return timed("smtplib", protocol, name, work, *args)

    client = ask("connect", connect)
    ask("greeting", client.ehlo)
    if protocol == "submission STARTTLS":
        ask("STARTTLS", lambda: client.starttls(context=TLS))
        ask("greeting inside TLS", client.ehlo)
    if protocol != "lmtp":
        ask("AUTH", client.login, USER, PASSWORD)
    ask("MAIL", client.mail, USER)
    ask("RCPT", client.rcpt, USER)
    ask("DATA", client.data, MAIL)
    ask("QUIT", client.quit)


# Raw sockets


class Raw:
    """A connection on which each piece is written by a call of its own."""

    def __init__(self, port, tls=None):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.deflate = None
        self.input = b""
        if tls == "tls":
            self.start_tls()

    def start_tls(self):
        self.socket = TLS.wrap_socket(self.socket)

    def start_deflate(self):
        self.deflate, self.inflate = zlib.compressobj(wbits=-15), zlib.decompressobj(wbits=-15)

    def send(self, *pieces):
        for piece in pieces:
            if self.deflate:
                piece = self.deflate.compress(piece) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
            self.socket.sendall(piece)

    def until(self, answer):
        """Reads to the end of the line that begins with `answer`."""
        pattern = re.compile(rb"^" + re.escape(answer) + rb".*\r\n", re.M)
        while not (found := pattern.search(self.input)):
            got = self.socket.recv(65536)
            assert got, (answer, self.input)
            self.input += self.inflate.decompress(got) if self.deflate else got
        self.input = self.input[found.end():]

    def say(self, pieces, answer):
        self.send(*pieces)
        self.until(answer)


def line_splits(name, line):
    """A command without a literal, as it might be split."""
    tag, rest = line.split(b" ", 1) if b" " in line else (line[:2], line[2:])
    yield name, [line]
    yield name + ", its line end apart", [line[:-2], b"\r\n"]
    yield name + ", split in its line end", [line[:-1], b"\n"]
    yield name + ", split behind its first word", [tag, line[len(tag):]]
    yield name + ", in four pieces", [tag, line[len(tag):-4], line[-4:-1], b"\n"]


def text_splits(name, head, text, end):
    """Bytes that are announced by `head` and followed by `end`, as they might be split."""
    half = len(text) // 2
    begin = [head] if head else []
    if head:
        yield name + ", in one piece", [head + text + end]
        yield name + ", only its end apart", [head + text, end]
    yield name + ", text with its end", begin + [text + end]
    yield name + ", text and end apart", begin + [text, end]
    yield name + ", text in halves", begin + [text[:half], text[half:], end]
    yield name + ", text in ten pieces", begin + tenths(text) + [end]
    yield name + ", split in its end", begin + [text + end[:1], end[1:]]


def tenths(text):
    step = len(text) // 10 + 1
    return [text[at:at + step] for at in range(0, len(text), step)]


SECRET = base64.b64encode(b"\0%s\0%s" % (USER.encode(), PASSWORD.encode()))


def greeted_imap(protocol):
    tls = "tls" if protocol == "imaps" else None
    client = Raw(PORTS["imaps" if tls else "imap"], tls)
    client.until(b"* OK")
    return client


def selected(protocol):
    client = greeted_imap(protocol)
    if protocol == "imap STARTTLS":
        client.say([b"s STARTTLS\r\n"], b"s OK")
        client.start_tls()
        timed("raw", protocol, "CAPABILITY, first inside TLS", client.say, [b"t CAPABILITY\r\n"], b"t OK")
    client.say([b"a AUTHENTICATE PLAIN " + SECRET + b"\r\n"], b"a OK")
    if protocol == "imap COMPRESS":
        client.say([b"c COMPRESS DEFLATE\r\n"], b"c OK")
        client.start_deflate()
    client.say([b"a SELECT INBOX\r\n"], b"a OK")
    return client


def raw_logins(protocol):
    client = greeted_imap(protocol)
    client.say([b"a AUTHENTICATE PLAIN\r\n"], b"+")
    timed("raw", protocol, "AUTHENTICATE, its line end apart", client.say, [SECRET, b"\r\n"], b"a OK")
    client = greeted_imap(protocol)
    login = [b"a LOGIN {%d+}\r\n" % len(USER), USER.encode(), b" {%d+}\r\n" % len(PASSWORD)]
    timed("raw", protocol, "LOGIN with literals apart", client.say, login + [PASSWORD.encode(), b"\r\n"], b"a OK")


def raw_imap(protocol):
    client = selected(protocol)
    for name, pieces in line_splits("NOOP", b"a NOOP\r\n"):
        timed("raw", protocol, name, client.say, pieces, b"a OK")
    for name, pieces in text_splits("APPEND {n+}", b"a APPEND INBOX {%d+}\r\n" % len(MAIL), MAIL, b"\r\n"):
        timed("raw", protocol, name, client.say, pieces, b"a OK")
    for name, pieces in text_splits("APPEND {n}", b"", MAIL, b"\r\n"):
        client.say([b"a APPEND INBOX {%d}\r\n" % len(MAIL)], b"+")
        timed("raw", protocol, name, client.say, pieces, b"a OK")
    for name, pieces in text_splits("SEARCH with a literal", b"a SEARCH SUBJECT {5+}\r\n", b"waits", b"\r\n"):
        timed("raw", protocol, name, client.say, pieces, b"a OK")
    for pieces in [b"DONE", b"\r\n"], [b"DO", b"NE", b"\r\n"]:
        client.say([b"a IDLE\r\n"], b"+")
        timed("raw", protocol, "DONE in %d pieces" % len(pieces), client.say, pieces, b"a OK")
    # Twice too large to be taken; the client sends it all the same, and then a command.
    size = 130 << 20
    client.say([b"a APPEND INBOX {%d}\r\n" % size], b"a NO")
    timed("raw", protocol, "NOOP behind a refused APPEND", client.say, [b"a NOOP", b"\r\n"], b"a OK")


def raw_smtp(protocol):
    port = {"lmtp": "lmtp", "submissions": "submissions"}.get(protocol, "submission")
    client = Raw(PORTS[port], "tls" if protocol == "submissions" else None)
    client.until(b"220 ")
    greeting = b"LHLO here\r\n" if protocol == "lmtp" else b"EHLO here\r\n"
    for name, pieces in line_splits("greeting", greeting):
        timed("raw", protocol, name, client.say, pieces, b"250 ")
    if protocol == "submission STARTTLS":
        client.say([b"STARTTLS\r\n"], b"220 ")
        client.start_tls()
        timed("raw", protocol, "EHLO, first inside TLS", client.say, [greeting], b"250 ")
    if protocol != "lmtp":
        client.say([b"AUTH PLAIN\r\n"], b"334 ")
        timed("raw", protocol, "AUTH, its line end apart", client.say, [SECRET, b"\r\n"], b"235 ")
    mail, rcpt = b"MAIL FROM:<%s>\r\n" % USER.encode(), b"RCPT TO:<%s>\r\n" % USER.encode()

    def envelope():
        client.say([mail + rcpt], b"250 2.1.5")

    for name, pieces in line_splits("MAIL", mail):
        timed("raw", protocol, name, client.say, pieces, b"250 2.1.0")
        client.say([b"RSET\r\n"], b"250 ")
    timed("raw", protocol, "MAIL, RCPT, DATA in three writes", client.say, [mail, rcpt, b"DATA\r\n"], b"354 ")
    client.say([MAIL + b".\r\n"], b"250 ")
    for name, pieces in text_splits("DATA", b"", MAIL, b".\r\n"):
        envelope()
        timed("raw", protocol, "DATA, the answer to", client.say, [b"DATA\r\n"], b"354 ")
        timed("raw", protocol, name, client.say, pieces, b"250 ")
    for name, pieces in text_splits("BDAT LAST", b"BDAT %d LAST\r\n" % len(MAIL), MAIL[:-3], MAIL[-3:]):
        envelope()
        timed("raw", protocol, name, client.say, pieces, b"250 2.0.0")
    envelope()
    chunks = [b"BDAT %d\r\n" % len(MAIL), MAIL, b"BDAT 2 LAST\r\n", b"x\n"]
    timed("raw", protocol, "BDAT, two chunks at once, each apart", client.say, chunks, b"250 2.0.0 Delivered")
    timed("raw", protocol, "QUIT", client.say, [b"QUIT\r\n"], b"221 ")


# Programs that say when they send and receive


def watched(client, protocol, argv, sent, feed=None):
    """Runs a program on a terminal, so that it prints at once; reports the wait after each line that it sends."""
    if not shutil.which(argv[0]):
        print(client, protocol, "-", "missing", sep="\t", flush=True)
        return
    ours, theirs = pty.openpty()
    stdin = open(feed, "rb") if feed else subprocess.DEVNULL
    program = subprocess.Popen(argv, stdin=stdin, stdout=theirs, stderr=theirs, env=dict(os.environ, HOME=DIR))
    os.close(theirs)
    said, line, command, since, longest = b"", b"", "start", time.perf_counter(), {}
    while True:
        try:
            got = os.read(ours, 65536)
        except OSError:
            break
        if not got:
            break
        now = time.perf_counter()
        longest[command] = max(longest.get(command, 0), now - since)
        since, said = now, said + got
        line += got
        *whole, line = line.split(b"\n")
        for text in whole:
            if found := re.search(sent, text):
                command = found.group(1).decode(errors="replace")
    os.close(ours)
    assert program.wait(PATIENCE) == 0, (argv, said.decode(errors="replace"))
    longest.pop("start", None)
    for command, seconds in longest.items():
        report(client, protocol, command, seconds)


def curl_round(mail):
    imap = "imap://127.0.0.1:%d/" % PORTS["imap"]
    imaps = "imaps://127.0.0.1:%d/" % PORTS["imaps"]
    smtp = "smtp://127.0.0.1:%d" % PORTS["submission"]
    login = ["--user", USER + ":" + PASSWORD]
    send = ["--mail-from", USER, "--mail-rcpt", USER, "--upload-file", mail]
    runs = [
        ("imap", "APPEND", [imap + "INBOX", "--upload-file", mail]),
        ("imap STARTTLS", "APPEND", [imap + "INBOX", "--ssl-reqd", "--upload-file", mail]),
        ("imaps", "APPEND", [imaps + "INBOX", "--upload-file", mail]),
        ("imap", "FETCH", [imap + "INBOX;MAILINDEX=1"]),
        ("imaps", "FETCH", [imaps + "INBOX;MAILINDEX=1"]),
        ("imap", "SEARCH", [imap + "INBOX?ALL"]),
        ("submission", "message", [smtp] + send),
        ("submission STARTTLS", "message", [smtp, "--ssl-reqd"] + send),
        ("submissions", "message", ["smtps://127.0.0.1:%d" % PORTS["submissions"]] + send),
    ]
    for protocol, name, args in runs:
        argv = ["curl", "--silent", "--insecure", "--verbose", "--no-buffer", "--output", os.devnull] + login + args
        watched("curl", protocol, argv, rb"^> (?:A\d+ )?([A-Z]+)")


def mbsync_round(number):
    near = os.path.join(DIR, "near%d" % number)
    for sub in ("cur", "new", "tmp"):
        os.makedirs(os.path.join(near, "INBOX", sub))
    for serial in range(5):
        with open(os.path.join(near, "INBOX", "new", "%d.%d.here" % (number, serial)), "wb") as file:
            file.write(MAIL.replace(b"\r\n", b"\n"))
    for protocol, kind in (("imap", "None"), ("imap STARTTLS", "STARTTLS"), ("imaps", "IMAPS")):
        port = PORTS["imaps" if protocol == "imaps" else "imap"]
        config = os.path.join(DIR, "mbsyncrc")
        with open(config, "w") as file:
            file.write(
                "FSync no\n\nIMAPAccount a\nHost localhost\nPort %d\nUser %s\nPass \"%s\"\nSSLType %s\n"
                "CertificateFile %s\nSystemCertificates no\nAuthMechs LOGIN\n\nIMAPStore far\nAccount a\n\n"
                "MaildirStore near\nPath %s/\nInbox %s/INBOX\n\n"
                "Channel c\nFar :far:\nNear :near:\nPatterns INBOX\nCreate Both\nSyncState *\n"
                % (port, USER, PASSWORD, kind, given["certificate"], near, near)
            )
        with open(os.path.join(near, "INBOX", "new", "%d.%s.more" % (number, kind)), "wb") as file:
            file.write(MAIL.replace(b"\r\n", b"\n"))
        # mbsync itself waits for the next second if a folder changed in this one.
        for sub in ("cur", "new"):
            os.utime(os.path.join(near, "INBOX", sub), (1, 1))
        watched("mbsync", protocol, ["mbsync", "-DN", "-c", config, "c"], rb"^>+ (?:\d+ )?([A-Z]+(?: [A-Z]+)?)")


def msmtp_round(mail):
    for protocol, args in (
        ("lmtp", ["--protocol=lmtp", "--auth=off", "--tls=off", "--port=%d" % PORTS["lmtp"]]),
        ("submission", ["--auth=plain", "--tls=off", "--port=%d" % PORTS["submission"]]),
        ("submission STARTTLS", ["--auth=plain", "--tls=on", "--tls-starttls=on", "--port=%d" % PORTS["submission"]]),
        ("submissions", ["--auth=plain", "--tls=on", "--tls-starttls=off", "--port=%d" % PORTS["submissions"]]),
    ):
        argv = ["msmtp", "--debug", "--file=/dev/null", "--host=localhost", "--from", USER, "--user", USER]
        argv += ["--passwordeval=echo " + PASSWORD, "--tls-trust-file=" + given["certificate"]] + args + [USER]
        watched("msmtp", protocol, argv, rb"^--> ([A-Z]+|\.)", mail)


mail = os.path.join(DIR, "mail.eml")
with open(mail, "wb") as file:
    file.write(MAIL)
for number in range(ROUNDS):
    for protocol in ("imap", "imap STARTTLS", "imaps"):
        imaplib_round(protocol)
    for protocol in ("lmtp", "submission", "submission STARTTLS", "submissions"):
        smtplib_round(protocol)
        raw_smtp(protocol)
    for protocol in ("imap", "imap COMPRESS", "imap STARTTLS", "imaps"):
        raw_imap(protocol)
    for protocol in ("imap", "imaps"):
        raw_logins(protocol)
    curl_round(mail)
    mbsync_round(number)
    msmtp_round(mail)
