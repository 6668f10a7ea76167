# States in which a session holds the most memory. The functions of `PYTHON_SESSIONS` are before
# this.
import base64, os, time, zlib

# The longest domain has 253 octets, and the longest ORCPT 500.
domain = ".".join(["d" * 63] * 3 + ["d" * 61])
orcpt = "rfc822;" + "x" * 493


def plain(user, password):
    # RFC 4616.
    return base64.b64encode(("\0%s\0%s" % (user, password)).encode()).decode()


def flood(stream, octets):
    # Until nothing more is taken: input, output and the buffers of the kernel are full.
    stream.settimeout(1)
    try:
        stream.sendall(octets)
    except socket.timeout:
        pass


class Imap:
    # The message of the mailbox Large that has a long header.
    header = 51

    def __init__(self, state, port, user, password):
        self.state = state
        self.stream = connect(port, True, receive_buffer=4096)
        for text in ['LOGIN %s "%s"' % (user, password), "SELECT Large", "COMPRESS DEFLATE"]:
            command(self.stream, text)
        self.packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        self.send(b"u NOOP\r\n")

    def send(self, octets):
        self.stream.sendall(self.packer.compress(octets) + self.packer.flush(zlib.Z_SYNC_FLUSH))

    def worsen(self):
        if self.state == "fetch":
            # Nothing is read any more: output, input and a part of a message stay where they are.
            self.send(b"f FETCH 1:* BODY.PEEK[]\r\n" + b"n NOOP\r\n" * 30000)
        elif self.state == "fields":
            # A thousand times nearly all of a long header, from its summary.
            items = b" ".join(b"BODY.PEEK[HEADER.FIELDS.NOT (Z%d)]" % n for n in range(1000))
            self.send(b"f FETCH %d (%s)\r\n" % (self.header, items) + b"n NOOP\r\n" * 30000)
        elif self.state == "append":
            # Cancelled by its empty message (RFC 3502). An octet follows in the same packet.
            size = 8000000
            self.send(b"a APPEND INBOX {%d+}\r\n%s {0+}\r\n\r\nx" % (size, b"x" * size))
        else:
            # A command that never ends, as long as one may be.
            keys = b"s SEARCH " + b"OR SEEN " * 2000
            for _ in range(60):
                keys += b"TEXT {4000+}\r\n" + b"x" * 4000 + b" "
            self.send(keys)


class Pop3:
    def __init__(self, _, port, user, password):
        self.stream = connect(port, True, receive_buffer=4096, greeting=b"+OK")
        for text in ["USER " + user, "PASS " + password]:
            self.stream.sendall(text.encode() + b"\r\n")
            line(self.stream, b"+OK")

    def worsen(self):
        # Nothing is read any more: output and a part of a message stay where they are.
        self.stream.sendall(b"".join(b"RETR %d\r\n" % n for n in range(1, 51)) * 20)


def quoted(local):
    # RFC 5321 §4.1.2: twice as long as it needs to be.
    return '"%s"' % "".join("\\" + letter for letter in local)


def of_user(user, number):
    # Local parts have at most 128 octets.
    name, at = user.split("@")
    return "%s@%s" % (quoted("%s+%0*d" % (name, 127 - len(name), number)), at)


def elsewhere(number):
    return "%s@%s" % (quoted("%0128d" % number), domain)


class Mail:
    """Submission with a login, or another host that begins TLS."""

    # Whether a part of the message is sent, too. It takes memory for messages that come in.
    with_message = True

    def __init__(self, state, port, user, password):
        self.is_user, self.user = state == "recipients", user
        self.stream = connect(port, self.is_user, receive_buffer=4096, greeting=b"220")
        if not self.is_user:
            self.ask("EHLO a.example", b"250 ")
            self.ask("STARTTLS", b"220")
            self.stream = context.wrap_socket(self.stream)
        self.ask("EHLO a.example", b"250 ")
        if self.is_user:
            self.ask("AUTH PLAIN " + plain(user, password), b"235")

    def ask(self, text, answer):
        self.stream.sendall(text.encode() + b"\r\n")
        line(self.stream, answer)

    def is_full(self, addresses):
        # Names recipients, and reads the answers. Whether the envelope takes no more of them.
        for first in range(0, len(addresses), 50):
            some = addresses[first:first + 50]
            rcpt = ["RCPT TO:<%s> NOTIFY=SUCCESS ORCPT=%s\r\n" % (to, orcpt) for to in some]
            self.stream.sendall("".join(rcpt).encode())
            answers = b""
            while answers.count(b"\r\n") < len(some):
                got = self.stream.recv(65536)
                assert got, answers
                answers += got
            codes = {answer[:3] for answer in answers.split(b"\r\n")[:-1]}
            assert codes <= {b"250", b"452"}, answers
            if b"452" in codes:
                return True
        return False

    def worsen(self):
        self.ask("MAIL FROM:<%s>" % (self.user if self.is_user else "bo@b.example"), b"250")
        if self.is_user:
            # Those elsewhere take more. The others share an account.
            assert not self.is_full([of_user(self.user, n) for n in range(100)])
            assert self.is_full([elsewhere(n) for n in range(1000)])
        else:
            assert self.is_full([of_user(self.user, n) for n in range(1001)])
        if self.with_message:
            self.ask("BDAT 1000\r\n" + "x" * 998, b"250")
        if self.is_user:
            # VRFY has a longer answer than NOOP.
            flood(self.stream, b"VRFY x\r\n" * 50000)
        else:
            # Commands before a login wait, so that the output stays short. This is no whole line.
            flood(self.stream, b"NOOP " + b"x" * 12000)


class Sieve:
    # 256 KiB: as long as a script may be.
    script = (b"#" + b"x" * 77 + b"\r\n") * 3276

    def __init__(self, _, port, user, password):
        self.stream = connect(port, False, receive_buffer=4096, greeting=b"OK")
        self.ask(b"STARTTLS\r\n")
        self.stream = context.wrap_socket(self.stream)
        line(self.stream, b"OK")
        self.ask(b'AUTHENTICATE "PLAIN" "%s"\r\n' % plain(user, password).encode())

    def ask(self, text):
        self.stream.sendall(text)
        line(self.stream, b"OK")

    def store(self):
        self.ask(b'PUTSCRIPT "large" {%d+}\r\n%s\r\n' % (len(self.script), self.script))

    def worsen(self):
        # The input has held a long command, and the answers to those behind it are not read. The
        # last one is not whole.
        long = b"{%d+}\r\n%s" % (len(self.script), self.script)
        get = b'GETSCRIPT "large"\r\n' * 500
        part = b'PUTSCRIPT "other" ' + long[:100000]
        flood(self.stream, b"CHECKSCRIPT " + long + b"\r\n" + get + part)


def of_state(state, port, user, password):
    kinds = {"retr": Pop3, "recipients": Mail, "smtp": Mail, "sieve": Sieve}
    return kinds.get(state, Imap)(state, port, user, password)


def all_sleep(pid):
    # Each thread waits for something, and not for a processor: it has read all that it will.
    for thread in os.listdir("/proc/%s/task" % pid):
        try:
            with open("/proc/%s/task/%s/stat" % (pid, thread)) as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] not in "SI":
                    return False
        except FileNotFoundError:
            return False
    return True


def at_rest(pid):
    # Until the server grows no more: it may still be reading.
    last, same = -1, 0
    while same < 5:
        time.sleep(0.2)
        now = anonymous(pid)
        same = same + 1 if abs(now - last) < 65536 and all_sleep(pid) else 0
        last = now
    return last
