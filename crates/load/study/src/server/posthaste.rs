//! Posthaste under test: `posthaste serve` with a data folder of its own and ports of its choice.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use posthaste_load_measure::Figures;
use posthaste_load_results::ServerFacts;
use posthaste_load_text::figure::whole;

use super::folder::make_own;
use super::instance::{Addresses, ELSEWHERE, Import, Instance, PASSWORD, Setting, loopback, pinned};
use super::process::{Child, output};

/// Starts it and makes its accounts. `lines` are further settings, with dotted keys.
pub fn start(setting: &Setting, lines: &str) -> Result<Instance, String> {
    let program = program(setting.posthaste.as_deref())?;
    let binary = program.display().to_string();
    let folder = setting.folder;
    make_own(folder)?;
    let data = folder.join("data").display().to_string();
    let config = folder.join("posthaste.toml");
    let mut text = lines.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if let Some(sink) = setting.sink {
        text.push_str(&route_settings(sink));
    }
    if let Some(memory) = setting.memory_mb {
        text.push_str(&memory_settings(memory));
    }
    if setting.submits {
        text.push_str(SUBMISSION_SETTINGS);
    }
    if setting.counts.is_some() {
        text.push_str(SIMULATED_SETTINGS);
    }
    std::fs::write(&config, &text).map_err(|e| format!("{}: {e}", config.display()))?;
    output(&[&binary, "config", "--config", &config.display().to_string()]).map_err(|e| refused(&e))?;
    make_accounts(&program, &["--data", &data], setting)?;
    let mut words = pinned(setting.cpus);
    if let Some(counts) = &setting.counts {
        words.extend(simulated(counts)?);
    }
    words.extend([&binary, "serve", "--config"].map(str::to_owned));
    words.extend([config.display().to_string(), "--data".into(), data.clone()]);
    let protocols = protocols(setting);
    for protocol in &protocols {
        words.extend(["--listen".to_owned(), format!("{protocol}=127.0.0.1:0")]);
    }
    let log = folder.join("posthaste.log");
    let mut child = Child::spawn(&words, &log, setting.memory_mb)?;
    if setting.memory_mb.is_some() && !child.is_memory_limited() {
        return Err("control groups that limit memory are not offered here".into());
    }
    let ready =
        ready_line(&mut child).ok_or_else(|| format!("posthaste did not start: see {}", log.display()))?;
    let facts = ServerFacts {
        name: "Posthaste".into(),
        version: version(&program)?,
        settings: format!("{}\n\n# posthaste.toml\n{text}", words.join(" ")),
        ..ServerFacts::default()
    };
    let at = addresses(&ready, &protocols)?;
    Ok(Instance {
        import: Some(Import { program: program.clone(), config, data }),
        figures: Some(Figures::Socket(folder.join("data").join("metrics.sock"))),
        ..Instance::of_child(at, child, facts)
    })
}

/// The listeners that a study needs.
fn protocols(setting: &Setting) -> Vec<&'static str> {
    let mut protocols = vec!["imap", "imaps", "pop3", "pop3s", "lmtp"];
    if setting.submits {
        protocols.extend(["submission", "submissions"]);
    }
    // Mail for the other server that arrives is routed, and comes by SMTP.
    if setting.sink.is_some() {
        protocols.push("smtp");
    }
    protocols
}

/// The addresses of these protocols in a line `ready imap=127.0.0.1:1143 …`.
pub(super) fn addresses(ready: &str, protocols: &[&str]) -> Result<Addresses, String> {
    let mut at = Addresses { sends_on: protocols.contains(&"smtp"), ..Addresses::default() };
    for protocol in protocols.iter().copied() {
        // `submission://` is with STARTTLS.
        let scheme = if protocol == "submission" { "submission+plain" } else { protocol };
        let place = match protocol {
            "imap" => &mut at.imap,
            "imaps" => &mut at.imaps,
            "pop3" => &mut at.pop3,
            "pop3s" => &mut at.pop3s,
            "lmtp" => &mut at.deliver,
            "submission" => &mut at.submission,
            "submissions" => &mut at.submissions,
            _ => &mut at.routes,
        };
        *place = Some(loopback(scheme, port_of(ready, protocol)?)?);
    }
    Ok(at)
}

/// The port of a protocol in the line `ready`.
fn port_of(ready: &str, protocol: &str) -> Result<u16, String> {
    let mut addresses = ready.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    let address = addresses.find(|(name, _)| *name == protocol).map(|(_, address)| address);
    let port = address.and_then(|a| a.rsplit(':').next()).and_then(|p| p.parse::<u16>().ok());
    port.ok_or_else(|| format!("no {protocol} in `{ready}`"))
}

/// The version of a binary, with its digest: builds of two commits have the same version.
pub(super) fn version(program: &Path) -> Result<String, String> {
    static KNOWN: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(version) = known().get(program) {
        return Ok(version.clone());
    }
    let says = output(&[&program.display().to_string(), "--version"])?;
    let (crc, bytes) = digest(program).map_err(|e| format!("{}: {e}", program.display()))?;
    let version = format!("{says}; binary of {} bytes, CRC-32C {crc:08x}", whole(bytes));
    known().insert(program.to_owned(), version.clone());
    Ok(version)
}

/// CRC-32C and size of a file.
fn digest(file: &Path) -> io::Result<(u32, u64)> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(file)?);
    let (mut crc, mut bytes) = (0, 0);
    loop {
        let read = file.fill_buf()?;
        let count = read.len();
        if count == 0 {
            return Ok((crc, bytes));
        }
        crc = crc32c::crc32c_append(crc, read);
        bytes += count as u64;
        file.consume(count);
    }
}

/// Mail for the other server comes by SMTP from this machine, and goes to the sink.
fn route_settings(sink: SocketAddr) -> String {
    format!(
        "relay.enabled = true\nrelay.routes = [{{ domain = \"{ELSEWHERE}\", host = \"{sink}\", tls = \"never\", \
         accept = \"all\", connections = 4 }}]\n"
    )
}

/// The reason why the program refuses its configuration. It may be older than a key.
fn refused(error: &str) -> String {
    match error.split_once("unknown key `") {
        Some((_, rest)) => {
            let key = rest.split('`').next().unwrap_or_default();
            format!("this posthaste does not know the setting `{key}`: name a newer one by --posthaste")
        }
        None => error.to_owned(),
    }
}

/// Valgrind has less address space than the server maps by default.
const SIMULATED_SETTINGS: &str = "store.index_map = \"8 GiB\"\n";

/// Users of studies send faster than people do. Without limits, none is refused.
const SUBMISSION_SETTINGS: &str = "limits.submitted_messages_per_hour = 0\nlimits.submitted_messages_per_day = 0\n\
                                   limits.submitted_recipients_per_hour = 0\nlimits.submitted_recipients_per_day = 0\n";

/// The words that run a command on a simulated processor.
fn simulated(counts: &Path) -> Result<Vec<String>, String> {
    output(&["valgrind", "--version"])
        .map_err(|e| format!("valgrind is not installed ({e}); Debian: apt-get install valgrind"))?;
    let words = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes"];
    let file = format!("--cachegrind-out-file={}", counts.display());
    Ok(words.map(str::to_owned).into_iter().chain([file]).collect())
}

/// The least that `limits.memory` may be. It is the sum of the worst cases of all parts of the
/// server. The server uses a fraction of it here. The control group is what limits it.
const MEMORY_MB_LEAST: u32 = 1024;

/// A cache of an eighth of the memory, as by default. `limits.memory` must name the worst case.
fn memory_settings(memory_mb: u32) -> String {
    let (all, cache) = (memory_mb.max(MEMORY_MB_LEAST), memory_mb / 8);
    format!("limits.memory = \"{all} MB\"\nstore.cache = \"{cache} MB\"\n")
}

/// The binary: the one named, the one beside this program, or the one in the path.
pub(super) fn program(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("posthaste")));
    if let Some(beside) = beside.filter(|p| p.exists()) {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("posthaste")).find(|p| p.exists());
    found.ok_or_else(|| {
        "no posthaste beside this program or in PATH: build it (cargo build --release) or name it by --posthaste".into()
    })
}

/// Makes the accounts that are missing. `place` are the flags that name the store.
pub(super) fn make_accounts(program: &Path, place: &[&str], setting: &Setting) -> Result<(), String> {
    let binary = program.display().to_string();
    let there = output(&[&[binary.as_str(), "account", "list"][..], place].concat()).unwrap_or_default();
    let there: std::collections::HashSet<&str> =
        there.lines().filter_map(|line| line.split_ascii_whitespace().next()).collect();
    for accounts in setting.accounts {
        for name in (0..accounts.count()).map(|n| accounts.name(n)).filter(|n| !there.contains(n.as_str())) {
            add_account(program, place, &name)?;
        }
    }
    Ok(())
}

fn add_account(program: &Path, place: &[&str], name: &str) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(["account", "add", name, "--password-stdin"])
        .args(place)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Fails only if the child does; its own words then say why.
        let _ = writeln!(stdin, "{PASSWORD}");
    }
    let out = child.wait_with_output().map_err(|e| e.to_string())?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("account add {name}: {}", String::from_utf8_lossy(&out.stderr).trim())),
    }
}

/// The line that names every address; what comes after is read away, so that the pipe never fills.
pub(super) fn ready_line(child: &mut Child) -> Option<String> {
    let mut lines = BufReader::new(child.stdout()?).lines();
    let ready = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("ready "))?;
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    Some(ready)
}

#[cfg(test)]
mod tests {
    use posthaste_imap_client::net::Security;
    use posthaste_load_drive::Target;

    use super::*;

    #[test]
    fn a_program_that_is_older_than_a_setting_is_named_as_such() {
        let said =
            refused("posthaste config: c.toml: unknown key `store.precompute`; did you mean `store.format`?");
        assert!(said.contains("does not know the setting `store.precompute`"), "{said}");
        assert_eq!(refused("no such file"), "no such file");
    }

    #[test]
    fn each_protocol_has_its_address() {
        let ready = "ready imap=127.0.0.1:1 imaps=127.0.0.1:2 lmtp=127.0.0.1:3 submission=127.0.0.1:4 \
                     submissions=127.0.0.1:5 smtp=127.0.0.1:6";
        let at = addresses(ready, &["imap", "lmtp", "submission", "submissions", "smtp"]).unwrap();
        let port = |target: &Option<Target>| target.as_ref().map(|t| (t.endpoint.port, t.endpoint.security));
        let (plain, tls) = (Security::Plain, Security::Tls);
        assert_eq!([port(&at.imap), port(&at.imaps)], [Some((1, plain)), None]);
        assert_eq!([port(&at.deliver), port(&at.routes)], [Some((3, plain)), Some((6, plain))]);
        assert_eq!([port(&at.submission), port(&at.submissions)], [Some((4, plain)), Some((5, tls))]);
        assert!(addresses(ready, &["pop3"]).unwrap_err().contains("no pop3 in"));
    }
}
