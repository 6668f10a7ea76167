//! Debian's Dovecot under test: its own base folder, static accounts, ports on loopback, one
//! process per session as its default is. Settings that differ from the defaults are those printed
//! here.

use std::net::Ipv4Addr;
use std::path::Path;

use posthaste_load_null_server::Relay;
use posthaste_load_results::ServerFacts;

use super::flavour::Flavour;
use super::folder::open_to_all;
use super::instance::{Addresses, ELSEWHERE, Instance, PASSWORD, Setting, loopback, pinned};
use super::process::{Child, free_port, output};
use super::user_folder::OpenFolder;

/// Starts it.
pub fn start(setting: &Setting, flavour: Flavour) -> Result<Instance, String> {
    let version = output(&["dovecot", "--version"]).map_err(|e| {
        format!("Dovecot is not installed ({e}); Debian: apt-get install dovecot-imapd dovecot-lmtpd")
    })?;
    // SAFETY: returns a number and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Err("Dovecot is started by root only: its processes change users".into());
    }
    let folder = setting.folder;
    let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(folder).map_err(fail)?;
    open_to_all(folder)?;
    let (uid, gid) = (number_of("-u", "nobody")?, number_of("-g", "nobody")?);
    OpenFolder::own(folder)?.folder_of("mail", (uid, gid))?;
    certificate(folder)?;
    let (imap, imaps) = (free_port()?, free_port()?);
    let mut at = Addresses {
        imap: Some(loopback("imap", imap)?),
        imaps: Some(loopback("imaps", imaps)?),
        ..Addresses::default()
    };
    let mut text = settings(folder, (uid, gid), (imap, imaps), flavour);
    let relay = further_protocols(setting, flavour, &mut at, &mut text)?;
    text.push_str(&flavour.settings(folder));
    let config = folder.join("dovecot.conf");
    std::fs::write(&config, &text).map_err(fail)?;
    let mut words = pinned(setting.cpus);
    words.extend(["dovecot", "-F", "-c"].map(str::to_owned));
    words.push(config.display().to_string());
    let log = folder.join("dovecot.out");
    let mut child = Child::within("Dovecot", &words, &log, setting.memory_mb)?;
    child
        .wait_for(imap)
        .map_err(|e| format!("dovecot: {e}; see {} and dovecot.log beside it", log.display()))?;
    let facts = ServerFacts {
        name: flavour.name().into(),
        version: format!("Dovecot {version}"),
        settings: format!("{}\n\n# dovecot.conf\n{text}", words.join(" ")),
        ..ServerFacts::default()
    };
    Ok(Instance { relay, ..Instance::of_child(at, child, facts) })
}

/// Protocols besides IMAP, as far as they are installed: their addresses and settings.
fn further_protocols(
    setting: &Setting,
    flavour: Flavour,
    at: &mut Addresses,
    text: &mut String,
) -> Result<Option<Relay>, String> {
    if has("pop3") {
        let ports = (free_port()?, free_port()?);
        (at.pop3, at.pop3s) = (Some(loopback("pop3", ports.0)?), Some(loopback("pop3s", ports.1)?));
        text.push_str(&pop3_settings(ports));
        text.push_str(flavour.pop3_settings());
    }
    if !has("lmtp") {
        return Ok(None);
    }
    let lmtp = free_port()?;
    at.deliver = Some(loopback("lmtp", lmtp)?);
    text.push_str(&lmtp_settings(lmtp));
    if !setting.submits || !has("submission") {
        return Ok(None);
    }
    let relay = Relay::start((Ipv4Addr::LOCALHOST, lmtp).into(), ELSEWHERE);
    let relay = relay.map_err(|e| format!("the next host of its submission: {e}"))?;
    let ports = (free_port()?, free_port()?);
    at.submission = Some(loopback("submission+plain", ports.0)?);
    at.submissions = Some(loopback("submissions", ports.1)?);
    at.sends_on = true;
    text.push_str(&submission_settings(ports, relay.address.port()));
    Ok(Some(relay))
}

fn settings(folder: &Path, (uid, gid): (u32, u32), (imap, imaps): (u16, u16), flavour: Flavour) -> String {
    let location = flavour.location();
    let f = folder.display();
    format!(
        "protocols = imap
base_dir = {f}/run
state_dir = {f}/run
log_path = {f}/dovecot.log
ssl = yes
ssl_cert = <{f}/cert.pem
ssl_key = <{f}/key.pem
disable_plaintext_auth = no
mail_location = {location}
first_valid_uid = 1
first_valid_gid = 1
mail_max_userip_connections = 0
default_process_limit = 2000
default_client_limit = 20000
passdb {{
  driver = static
  args = password={PASSWORD}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={f}/mail/%u
}}
service imap-login {{
  inet_listener imap {{
    address = 127.0.0.1
    port = {imap}
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {imaps}
    ssl = yes
  }}
}}
service anvil {{
  client_limit = 20000
}}
"
    )
}

/// Whether Debian's package of a protocol is installed.
pub(super) fn has(name: &str) -> bool {
    ["/usr/lib/dovecot", "/usr/libexec/dovecot"].iter().any(|dir| Path::new(dir).join(name).exists())
}

fn pop3_settings((pop3, pop3s): (u16, u16)) -> String {
    format!(
        "protocols = $protocols pop3
service pop3-login {{
  inet_listener pop3 {{
    address = 127.0.0.1
    port = {pop3}
  }}
  inet_listener pop3s {{
    address = 127.0.0.1
    port = {pop3s}
    ssl = yes
  }}
}}
"
    )
}

fn lmtp_settings(port: u16) -> String {
    format!(
        "protocols = $protocols lmtp
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {port}
  }}
}}
"
    )
}

/// The settings of Dovecot's submission service. It passes mail on to another SMTP server, which
/// is the instrument's here.
fn submission_settings((plain, tls): (u16, u16), relay: u16) -> String {
    format!(
        "protocols = $protocols submission
submission_relay_host = 127.0.0.1
submission_relay_port = {relay}
service submission-login {{
  inet_listener submission {{
    address = 127.0.0.1
    port = {plain}
  }}
  inet_listener submissions {{
    address = 127.0.0.1
    port = {tls}
    ssl = yes
  }}
}}
"
    )
}

pub(super) fn number_of(which: &str, user: &str) -> Result<u32, String> {
    output(&["id", which, user])?.parse().map_err(|_| format!("user {user} has no number"))
}

/// A certificate of its own.
pub(super) fn certificate(folder: &Path) -> Result<(), String> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(|e| e.to_string())?;
    let write = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).map_err(|e| format!("{}/{name}: {e}", folder.display()))
    };
    write("cert.pem", made.cert.pem())?;
    write("key.pem", made.signing_key.serialize_pem())
}
