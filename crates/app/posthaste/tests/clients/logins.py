"""Logs in by SASL over IMAP, POP3, submission and ManageSieve, and prints what came of it, a line of JSON each.

argv: a file of cases, as JSON. A case has `protocol`, `port`, `tls` ("implicit", "starttls" or "none"), `mechanism`,
`responses` (base64, the first is the initial one; none to send none), and perhaps `cert` and `key`.
"""
import base64, json, re, socket, ssl, sys


class Talk:
    def __init__(self, case):
        self.case = case
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        if case.get("cert"):
            self.context.load_cert_chain(case["cert"], case["key"])
        self.socket = socket.create_connection(("127.0.0.1", case["port"]), timeout=60)
        if case["tls"] == "implicit":
            self.wrap()
        else:
            self.file = self.socket.makefile("rb")

    def wrap(self):
        self.socket = self.context.wrap_socket(self.socket, server_hostname="localhost")
        self.file = self.socket.makefile("rb")

    def send(self, text):
        self.socket.sendall(text.encode() + b"\r\n")

    def line(self):
        line = self.file.readline()
        if not line:
            raise EOFError("the server hung up")
        return line.decode().rstrip("\r\n")

    def until(self, done):
        lines = []
        while True:
            lines.append(self.line())
            if done(lines[-1]):
                return lines


def encoded(octets_in_base64):
    return octets_in_base64 or "="


def imap(talk):
    talk.line()
    if talk.case["tls"] == "starttls":
        talk.send("s STARTTLS")
        talk.line()
        talk.wrap()
    talk.send("c CAPABILITY")
    offered = [word[5:] for word in talk.until(lambda l: l.startswith("c "))[0].split() if word.startswith("AUTH=")]
    return offered, "a AUTHENTICATE {m}{i}", lambda l: l[2:] if l.startswith("+ ") else None, lambda l: l.startswith("a ")


def pop3(talk):
    talk.line()
    if talk.case["tls"] == "starttls":
        talk.send("STLS")
        talk.line()
        talk.wrap()
    talk.send("CAPA")
    offered = [l.split()[1:] for l in talk.until(lambda l: l == ".") if l.startswith("SASL ")]
    return sum(offered, []), "AUTH {m}{i}", lambda l: l[2:] if l.startswith("+ ") else None, lambda l: l[0] in "+-"


def submission(talk):
    done = lambda l: l[3:4] == " "
    talk.until(done)
    talk.send("EHLO test")
    lines = talk.until(done)
    if talk.case["tls"] == "starttls":
        talk.send("STARTTLS")
        talk.line()
        talk.wrap()
        talk.send("EHLO test")
        lines = talk.until(done)
    offered = [l[4:].split()[1:] for l in lines if l[4:].startswith("AUTH ")]
    return sum(offered, []), "AUTH {m}{i}", lambda l: l[4:] if l.startswith("334 ") else None, done


def sieve(talk):
    done = lambda l: l.startswith(("OK", "NO", "BYE"))
    lines = talk.until(done)
    if talk.case["tls"] == "starttls":
        talk.send("STARTTLS")
        talk.line()
        talk.wrap()
        lines = talk.until(done)
    offered = next(l for l in lines if l.startswith('"SASL"')).split('"')[3].split()

    def challenge(line):
        if line.startswith('"'):
            return line.strip('"')
        if line.startswith("{"):
            return talk.line()
        return None

    return offered, 'AUTHENTICATE "{m}"{i}', challenge, done


for case in json.load(open(sys.argv[1])):
    talk = Talk(case)
    protocol = case["protocol"]
    offered, command, challenge_of, is_last = {"imap": imap, "pop3": pop3, "submission": submission, "sieve": sieve}[protocol](talk)
    literal = lambda text: "{%d+}\r\n%s" % (len(text), text)
    responses = list(case["responses"])
    initial = ""
    if responses:
        first = responses.pop(0)
        initial = " " + (literal(first) if protocol == "sieve" else encoded(first))
    talk.send(command.format(m=case["mechanism"], i=initial))
    refusal = None
    while True:
        line = talk.line()
        challenge = challenge_of(line)
        if challenge is None:
            break
        refusal = base64.b64decode(challenge).decode()
        answer = responses.pop(0) if responses else ""
        talk.send(literal(answer) if protocol == "sieve" else answer)
    said = line if is_last(line) else "?" + line
    good = bool(re.match(r"a OK|\+OK|235|OK", said))
    print(json.dumps({"protocol": protocol, "offered": offered, "challenge": refusal, "good": good, "said": said}))
