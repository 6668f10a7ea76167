"""Roundcube against the server, in headless Chromium under PHP's own web server: login, list, messages octet by octet,
attachments, flags, search, sort, threads, copy, move, delete, folders, a draft, a message that is sent, new mail.
Arguments: IMAP's port, submission's port, user, password, an empty folder to work in. The other user of the server is
ben@example.org. Ends at the first thing amiss."""
import base64, imaplib, json, os, pathlib, shutil, signal, socket, subprocess, sys, time

imap, submission, user, password, work = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], pathlib.Path(sys.argv[5])
INSTALLED, CONFIGURED = "/var/lib/roundcube", "/etc/roundcube"
PATIENCE_S = 120
MAIL = [
    b"Subject: plain\r\nFrom: =?utf-8?q?Zo=C3=AB?= <zoe@example.net>\r\nDate: Wed, 01 Jan 2020 10:00:00 +0000\r\nMessage-ID: <a@x>\r\n\r\n.\r\n..\r\nFrom here\r\n",
    b"Subject: Re: plain\r\nFrom: ben@example.org\r\nDate: Thu, 02 Jan 2020 10:00:00 +0000\r\nMessage-ID: <b@x>\r\nIn-Reply-To: <a@x>\r\n\r\nx",
    b"Subject: eight bits\r\nFrom: c@x.test\r\nDate: Fri, 03 Jan 2020 10:00:00 +0000\r\nContent-Type: text/plain; charset=utf-8\r\n\r\ngr\xc3\xbc\xc3\x9fe\r\n",
    b"Subject: parts\r\nFrom: d@x.test\r\nDate: Sat, 04 Jan 2020 10:00:00 +0000\r\nMIME-Version: 1.0\r\n"
    b"Content-Type: multipart/mixed; boundary=\"b b\"\r\n\r\n--b b\r\nContent-Type: text/html; charset=iso-8859-1\r\n"
    b"Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>=FCber <b>alles</b></p>\r\n--b b\r\nContent-Type: application/octet-stream\r\n"
    b"Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=\"a.bin\"\r\n\r\nAAECAwD/\r\n--b b--\r\n",
]


def free_port():
    """A port that the system gives to no connection meanwhile (Linux: it gives 32,768 and up)."""
    for port in range(10_000 + os.getpid() % 2000, 12_000):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise SystemExit("no port is free")


def ok(answer):
    assert answer[0] == "OK", answer
    return answer[1]


def within(what, condition):
    """Waits until a condition holds, and returns what it returned."""
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)
    return found


class Browser:
    """Chromium, by the commands that its developers' tools give it, over a pair of pipes."""

    def __init__(self):
        (theirs, to), (answers, from_it) = os.pipe(), os.pipe()

        def descriptors():
            # Chromium reads commands from 3 and writes answers to 4.
            os.dup2(theirs, 103)
            os.dup2(from_it, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.child = subprocess.Popen(
            ["chromium", "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--lang=en-US",
             f"--user-data-dir={work}/browser", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(from_it)
        self.writer, self.reader = os.fdopen(to, "wb"), os.fdopen(answers, "rb")
        self.count, self.rest, self.session = 0, b"", None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(self, method, **parameters):
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        self.writer.write(json.dumps(command).encode() + b"\0")
        self.writer.flush()
        while True:
            while b"\0" not in self.rest:
                got = os.read(self.reader.fileno(), 1 << 20)
                assert got, "Chromium ended"
                self.rest += got
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]

    def value(self, script):
        """The value of an expression of JavaScript, or None while its page is not there."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        return answer["result"].get("value") if "exceptionDetails" not in answer else None

    def run(self, script):
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    def go(self, address):
        """Goes to another page, and waits until it is all there."""
        self.value("window.isOld = true")
        self.ask("Page.navigate", url=address)
        self.wait("!window.isOld && document.readyState == 'complete'")

    def wait(self, script):
        return within(script, lambda: self.value(script))

    def quiet(self):
        """No request of Roundcube's is under way."""
        self.wait("window.rcmail && !rcmail.busy && jQuery.active == 0")

    def octets(self, query):
        """The answer of an address of Roundcube."""
        text = self.run(f"""(async () => {{
            const bytes = new Uint8Array(await (await fetch(`{site}?{query}&_token=${{rcmail.env.request_token}}`)).arrayBuffer());
            return btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
        }})()""")
        return base64.b64decode(text)


def configure():
    folder = work / "config"
    folder.mkdir()
    for name in ("defaults.inc.php", "mimetypes.php"):
        shutil.copy(f"{CONFIGURED}/{name}", folder)
    (folder / "config.inc.php").write_text(f"""<?php
$config = [];
$config['db_dsnw'] = 'sqlite:///{work}/roundcube.db?mode=0600';
$config['imap_host'] = '127.0.0.1:{imap}';
$config['imap_vendor'] = null;
$config['smtp_host'] = '127.0.0.1:{submission}';
$config['smtp_user'] = '%u';
$config['smtp_pass'] = '%p';
$config['des_key'] = '0123456789abcdef01234567';
$config['cipher_method'] = 'AES-256-CBC';
$config['log_dir'] = '{work}/logs/';
$config['temp_dir'] = '{work}/temp/';
$config['plugins'] = [];
$config['language'] = 'en_US';
$config['skin'] = 'elastic';
$config['timezone'] = 'UTC';
$config['create_default_folders'] = false;
$config['drafts_mbox'] = 'Drafts';
$config['sent_mbox'] = 'Sent';
$config['trash_mbox'] = 'Trash';
$config['junk_mbox'] = 'Junk';
$config['enable_installer'] = false;
""")
    for name in ("logs", "temp"):
        (work / name).mkdir()


configure()
web = free_port()
site = f"http://127.0.0.1:{web}/"
php = subprocess.Popen(
    ["php", "-d", "session.save_path=" + str(work), "-S", f"127.0.0.1:{web}", "-t", INSTALLED],
    env={**os.environ, "ROUNDCUBE_CONFIG_DIR": str(work / "config"), "PHP_CLI_SERVER_WORKERS": "4"},
    start_new_session=True, stdout=subprocess.DEVNULL, stderr=open(work / "php.log", "wb"))
client = imaplib.IMAP4("127.0.0.1", imap, timeout=60)
ok(client.login(user, password))
browser = None


def answers():
    try:
        socket.create_connection(("127.0.0.1", web)).close()
        return True
    except OSError:
        return False


def subjects():
    """Subjects in the list that is shown, from the top."""
    return browser.value("""Array.from(document.querySelectorAll('#messagelist tbody tr'), row => row)
        .filter(row => row.offsetParent !== null).map(row => row.querySelector('td.subject span.subject').innerText.trim())""")


def shows(*wanted):
    within(f"a list of {wanted}", lambda: browser.value("!rcmail.busy") and subjects() == list(wanted))


def mailbox(name):
    browser.go(f"{site}?_task=mail&_mbox={name}")
    browser.wait(f"window.rcmail && rcmail.env.task == 'mail' && rcmail.env.mailbox == '{name}' && !!rcmail.message_list")
    browser.quiet()


def there(name, keys="ALL"):
    """UIDs that another client finds."""
    ok(client.select(f'"{name}"'))
    return [int(uid) for uid in ok(client.uid("SEARCH", None, keys))[0].split()]


def choose(*uids):
    browser.run("rcmail.message_list.clear_selection()")
    browser.run("".join(f"rcmail.message_list.select_row('{uid}', CONTROL_KEY, true);" for uid in uids))


def main():
    global browser
    for text in MAIL:
        ok(client.append("INBOX", None, None, text))
    within("PHP's server", answers)
    browser = Browser()
    browser.go(site)
    browser.wait("!!document.querySelector('#rcmloginuser')")
    browser.run(f"document.querySelector('#rcmloginuser').value = '{user}'; document.querySelector('#rcmloginpwd').value = '{password}'; document.querySelector('#login-form').requestSubmit()")
    browser.wait("window.rcmail && rcmail.env.task == 'mail' && !!rcmail.message_list && document.readyState == 'complete'")
    shows("parts", "eight bits", "Re: plain", "plain")
    names = browser.run("Object.keys(rcmail.env.mailboxes)")
    assert {"INBOX", "Sent", "Drafts", "Trash", "Junk", "Archive"} <= set(names), names

    for uid, text in enumerate(MAIL, 1):
        got = browser.octets(f"_task=mail&_mbox=INBOX&_uid={uid}&_action=viewsource&_save=1")
        assert got == text, (uid, got[:300])
    browser.go(f"{site}?_task=mail&_mbox=INBOX&_uid=4&_action=show")
    browser.wait("!!document.querySelector('#attachment-list a.filename, #attachment-list li a')")
    body = browser.wait("document.querySelector('#messagebody').innerText.trim()")
    assert body == "über alles", body
    part = browser.run("new URL(Array.from(document.querySelectorAll('#attachment-list a')).find(a => a.href.includes('_part=')).href).searchParams.get('_part')")
    got = browser.octets(f"_task=mail&_mbox=INBOX&_uid=4&_part={part}&_action=get&_download=1")
    assert got == bytes([0, 1, 2, 3, 0, 255]), got
    within("the message that was shown is seen", lambda: there("INBOX", "SEEN") == [4])

    mailbox("INBOX")
    browser.run("rcmail.mark_message('flagged', 2)")
    within("a flag", lambda: there("INBOX", "FLAGGED") == [2])
    browser.run("rcmail.mark_message('read', 1)")
    within("a message read", lambda: there("INBOX", "SEEN") == [1, 4])
    for scope, word, found in (("subject", "eight", ["eight bits"]), ("text", "grüße", ["eight bits"]), ("from", "Zoë", ["plain"])):
        browser.run(f"rcmail.env.search_mods = {{'*': {{'{scope}': 1}}}}; document.querySelector('#mailsearchform').value = '{word}'; rcmail.command('search')")
        shows(*found)
        browser.run("rcmail.command('reset-search')")
        shows("parts", "eight bits", "Re: plain", "plain")
    browser.run("rcmail.set_list_options(null, 'subject', 'ASC', 0)")
    shows("eight bits", "parts", "plain", "Re: plain")
    browser.run("rcmail.set_list_options(null, 'date', 'DESC', 1)")
    browser.wait("rcmail.env.threading && Object.values(rcmail.env.messages).some(message => message.depth == 1)")
    browser.run("rcmail.set_list_options(null, 'date', 'DESC', 0)")
    shows("parts", "eight bits", "Re: plain", "plain")

    choose(1, 2)
    browser.run("rcmail.copy_messages('Archive')")
    within("copies", lambda: len(there("Archive")) == 2)
    choose(3)
    browser.run("rcmail.move_messages('Archive')")
    shows("parts", "Re: plain", "plain")
    within("a message moved", lambda: there("INBOX") == [1, 2, 4] and len(there("Archive")) == 3)
    browser.quiet()
    choose(4)
    browser.run("rcmail.command('delete')")
    shows("Re: plain", "plain")
    within("a deleted message in Trash", lambda: len(there("Trash")) == 1)

    # New mail while the list is shown.
    ok(client.append("INBOX", None, None, b"Subject: new\r\nDate: Sun, 05 Jan 2020 10:00:00 +0000\r\n\r\nx"))
    browser.run("rcmail.refresh()")
    within("new mail", lambda: "new" in (subjects() or []))

    # A folder with a name that needs quoting and modified UTF-7.
    browser.go(f"{site}?_task=settings&_action=edit-folder&_mbox=&_path=")
    browser.wait("!!document.querySelector('input[name=_name]') && rcmail.env.action == 'edit-folder'")
    browser.wait("!!rcmail.commands.save")
    browser.run("document.querySelector('input[name=_name]').value = 'Prüfung & Co'; rcmail.command('save')")
    within("a new folder", lambda: any(b'"Pr&APw-fung &- Co"' in line for line in ok(client.list())))
    within("a subscription", lambda: any(b'"Pr&APw-fung &- Co"' in line for line in ok(client.lsub())))

    for action, where in (("savedraft", "Drafts"), ("send", "Sent")):
        browser.go(f"{site}?_task=mail&_action=compose&_to=ben@example.org")
        browser.wait("window.rcmail && rcmail.env.action == 'compose' && !!document.querySelector('#composebody') && rcmail.commands.send")
        browser.quiet()
        browser.run(f"document.querySelector('#compose-subject').value = 'grüße, {action}'; document.querySelector('#composebody').value = 'über\\n.\\nall'; rcmail.command('{action}', {{}})")
        within(f"a message in {where}", lambda: len(there(where)) == 1)
    text = ok(client.uid("FETCH", "1", "(BODY.PEEK[])"))[0][1]
    assert b"\r\n.\r\n" in text and b"To: ben@example.org" in text, text
    other = imaplib.IMAP4("127.0.0.1", imap, timeout=60)
    ok(other.login("ben@example.org", password))

    def arrived():
        ok(other.select("INBOX"))
        return ok(other.search(None, 'SUBJECT "send"'))[0] == b"1"

    within("the message at its recipient", arrived)
    errors = work / "logs/errors.log"
    assert not errors.exists(), errors.read_text()
    print("Roundcube: done")


try:
    main()
except BaseException:
    for log in ("php.log", "logs/errors.log"):
        if (work / log).exists():
            print(f"{log}: ", (work / log).read_text(errors="replace")[-2000:], file=sys.stderr)
    if browser:
        picture = browser.ask("Page.captureScreenshot")["data"]
        (work / "amiss.png").write_bytes(base64.b64decode(picture))
    raise
finally:
    if browser:
        browser.child.terminate()
        browser.child.wait()
    # Its workers, too: they go on without it.
    os.killpg(php.pid, signal.SIGTERM)
    php.wait()
