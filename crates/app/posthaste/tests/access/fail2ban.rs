//! The lines that failed logins leave, read by the pattern that `contrib/fail2ban` ships.

use std::fs;
use std::path::Path;
use std::process::Command;

use posthaste_testkit::{
    LineClient, Server, ServerBuilder, client_tests_wanted, run_client, run_python, script,
};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const FILTER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../contrib/fail2ban/filter.d/posthaste.conf");
const USER: &str = "ana@example.org";
/// Input of a client that tries to have another address banned.
const FORGED: &str = "login failed address=9.9.9.9 protocol=imap session=1 reason=credentials account=";
/// The same for a log of JSON.
const FORGED_JSON: &str = r#"","message":"login failed","address":"9.9.9.9","protocol":"imap","session":"1","reason":"credentials","account":"\""#;

/// Reads the filter as fail2ban does, and prints the address of each line that matches. A line is
/// tried as a log file has it, whose date is cut off before the match, and as a journal has it.
const MATCH: &str = r#"
import configparser, re, sys
conf = configparser.RawConfigParser()
conf.read(sys.argv[1])
definition = dict(conf["Definition"], __prefix_line=r"\s*(?:\S+ posthaste\[\d+\]: )?")
patterns = re.sub(r"%\((\w+)\)s", lambda name: definition[name[1]], definition["failregex"])
patterns = patterns.replace("<HOST>", r"(?P<host>[0-9a-fA-F:.]+)").strip().split("\n")
patterns = [re.compile(pattern) for pattern in patterns]
def host(form):
    return next((m.group("host") for m in (p.search(form) for p in patterns) if m), "-")
date = re.compile(r'^(\{"timestamp":"|)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z')
for line in open(sys.argv[2]):
    line = line.rstrip("\n")
    forms = [date.sub(r"\1", line), "mail posthaste[77]: " + line]
    found = {host(form) for form in forms}
    assert len(found) == 1, line
    print(found.pop(), line)
"#;

/// A server for each protocol that takes passwords, and for LMTP. It writes the file `log` there.
fn serving(dir: &Path, format: &str) -> Server {
    let logging = dir.join("logging");
    script(&logging, &format!("exec '{BINARY}' \"$@\" 2>>'{}'", dir.join("log").display()));
    let settings = format!("[log]\nformat = \"{format}\"\n");
    let protocols = ["imap", "pop3", "lmtp", "submission", "sieve"];
    let listen = |server: ServerBuilder, name: &str| server.listen(&format!("{name}=127.0.0.1:0"));
    let builder = ServerBuilder::new(logging).settings(&dir.join("posthaste.toml"), settings);
    protocols.into_iter().fold(builder, listen).start()
}

/// The answer to a command of ManageSieve.
fn sieve(server: &Server, command: &str) -> String {
    let mut client = LineClient::connect(server.address("sieve")).unwrap();
    while !client.line().unwrap().starts_with("OK") {}
    client.send(format!("{command}\r\n").as_bytes()).unwrap();
    client.line().unwrap()
}

fn imap(server: &Server, lines: &[&str]) {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    for line in lines {
        client.send(format!("{line}\r\n").as_bytes()).unwrap();
        client.line().unwrap();
    }
}

/// Lines that fail2ban itself finds in a log, where it is installed: an address for each line
/// that matches.
fn fail2ban(log: &Path) -> Option<Vec<String>> {
    let shipped = Path::new("/etc/fail2ban");
    if !shipped.join("filter.d/common.conf").exists() {
        eprintln!("skipped: fail2ban-regex (Debian: apt-get install fail2ban)");
        return None;
    }
    // The filter includes a file of fail2ban's own, so both must be in one place.
    let place = tempfile::tempdir().unwrap();
    let filters = place.path().join("filter.d");
    fs::create_dir(&filters).unwrap();
    fs::copy(shipped.join("fail2ban.conf"), place.path().join("fail2ban.conf")).unwrap();
    fs::copy(shipped.join("filter.d/common.conf"), filters.join("common.conf")).unwrap();
    fs::copy(FILTER, filters.join("posthaste.conf")).unwrap();
    let mut command = Command::new("fail2ban-regex");
    command.arg("-c").arg(place.path()).args(["-o", "ip"]).arg(log).arg(filters.join("posthaste.conf"));
    Some(run_client(command).lines().map(str::to_owned).collect())
}

#[test]
fn the_filter_finds_each_failed_login_and_nothing_that_a_client_forged() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (log, server) = (dir.path().join("log"), serving(dir.path(), "text"));
    server.add_account(USER, "correct horse");

    imap(&server, &[&format!("a LOGIN {USER} wrong")]);
    // base64 of NUL ana@example.org NUL wrong
    const WRONG: &str = "AGFuYUBleGFtcGxlLm9yZwB3cm9uZw==";
    imap(&server, &[&format!("a AUTHENTICATE PLAIN {WRONG}")]);
    imap(&server, &[&format!("a LOGIN \"\\\" {FORGED}\\\"\" wrong")]);
    // A success does not count, and neither does a failure that is no guess. An ID is logged
    // after a login only.
    let id = format!("a ID (\"name\" \"INFO posthaste::login: {FORGED}\")");
    imap(&server, &[&id]);
    imap(&server, &[&format!("a LOGIN {USER} \"correct horse\""), &id]);
    imap(&server, &["a AUTHENTICATE GSSAPI"]);
    let mut sender = LineClient::connect(server.address("submission")).unwrap();
    sender.reply().unwrap();
    sender.ask("EHLO test").unwrap();
    assert!(sender.ask(&format!("AUTH PLAIN {WRONG}")).unwrap().starts_with("535"));

    let mut reader = LineClient::connect(server.address("pop3")).unwrap();
    for line in ["", &format!("USER {USER}\r\n"), "PASS wrong\r\n", &format!("AUTH PLAIN {WRONG}\r\n")] {
        reader.send(line.as_bytes()).unwrap();
        reader.line().unwrap();
    }

    assert!(sieve(&server, &format!("AUTHENTICATE \"PLAIN\" \"{WRONG}\"")).starts_with("NO"));

    // A script may print any text and any number of lines.
    let script = format!(
        "require \"ihave\";\nerror text:\nx\n2026-11-26T22:30:00.000000Z  INFO posthaste::login: {FORGED}\"x\"\n.\n;\n"
    );
    assert!(server.command(&["sieve", "put", USER, "forged", "-"], &script).status.success());
    assert!(server.command(&["sieve", "activate", USER, "forged"], "").status.success());
    server.hand_in("lmtp", "bo@example.net", &[USER], b"Subject: x\r\n\r\nx\r\n");

    let said = run_python(MATCH, &[FILTER, log.to_str().unwrap()]);
    let found: Vec<&str> = said.lines().filter(|line| !line.starts_with("- ")).collect();
    assert_eq!(found.len(), 7, "{said}");
    assert!(found.iter().all(|line| line.starts_with("127.0.0.1 ")), "{said}");
    let of = |part: &str| found.iter().filter(|line| line.contains(part)).count();
    let protocols = ["imap", "submission", "pop3", "sieve"];
    assert_eq!(protocols.map(|name| of(&format!("protocol={name} "))), [3, 1, 2, 1]);
    assert_eq!(of(&format!("account=\"{USER}\"")), 6);
    let banned = fail2ban(&log);
    assert!(banned.is_none_or(|banned| banned == ["127.0.0.1"; 7]), "fail2ban itself found others");
    // The forged name is in the log, in quotes, and so is the name that the client gave itself.
    // The script's text is on one line.
    assert_eq!(said.matches("9.9.9.9").count(), 3, "{said}");
    assert_eq!(of("x\\r\\n2026-11-26"), 0, "{said}");
    assert!(
        said.lines().any(|line| line.starts_with("- ") && line.contains(r"x\\r\\n2026-11-26T22:30:00")),
        "{said}"
    );
    let success = said.lines().find(|line| line.contains("posthaste::login: logged in")).unwrap();
    assert!(
        success.contains("address=127.0.0.1 protocol=imap session=")
            && success.ends_with(&format!("account=\"{USER}\""))
    );
}

#[test]
fn the_filter_finds_failed_logins_in_lines_of_json() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (log, server) = (dir.path().join("log"), serving(dir.path(), "json"));
    server.add_account(USER, "correct horse");
    imap(&server, &[&format!("a LOGIN {USER} wrong")]);
    imap(&server, &[&format!("a LOGIN {{{}+}}\r\n{FORGED_JSON} wrong", FORGED_JSON.len())]);
    // Neither a line of the other format, nor one of this format, that is a client's own text. A
    // text ends with the quote that the pattern for the other format wants.
    let text = format!("a ID (\"name\" \"INFO posthaste::login: {FORGED}\")");
    let json = format!("a ID (\"name\" {{{}+}}\r\n{FORGED_JSON})", FORGED_JSON.len());
    imap(&server, &[&format!("a LOGIN {USER} \"correct horse\""), &text, &json, "a NOOP"]);
    imap(&server, &["a AUTHENTICATE GSSAPI"]);

    let said = run_python(MATCH, &[FILTER, log.to_str().unwrap()]);
    let found: Vec<&str> = said.lines().filter(|line| !line.starts_with("- ")).collect();
    assert_eq!(found.len(), 2, "{said}");
    assert!(found.iter().all(|line| line.starts_with("127.0.0.1 {\"timestamp\":")), "{said}");
    assert!(said.matches("9.9.9.9").count() >= 2, "{said}");
    let banned = fail2ban(&log);
    assert!(banned.is_none_or(|banned| banned == ["127.0.0.1"; 2]), "fail2ban itself found others");
}

/// ManageSieve takes passwords as the ports of mail do.
#[test]
fn the_jail_closes_every_port_that_takes_logins() {
    let jail = Path::new(FILTER).parent().unwrap().with_file_name("jail.d");
    let file = fs::read_dir(jail).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(file).unwrap();
    let ports = text.lines().find_map(|line| line.strip_prefix("port = ")).unwrap();
    let ports: Vec<&str> = ports.split(',').collect();
    for port in ["110", "143", "465", "587", "993", "995", "4190"] {
        assert!(ports.contains(&port), "{port} is not in {ports:?}");
    }
}
