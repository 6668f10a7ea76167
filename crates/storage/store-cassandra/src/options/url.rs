//! The cluster as an address:
//! `cassandra://[USER[:PASSWORD]@]HOST[:PORT][,HOST…]/KEYSPACE[?OPTION=VALUE&…]`.
//!
//! Options: `tls=yes`, `ca=FILE`, `cert=FILE` with `key=FILE`, `password-file=FILE`, `dc=NAME`,
//! and in whole seconds `sweep-after`, `sweep-every` and `sweep-lease`. User, password and the
//! values of options are percent-encoded (RFC 3986 §2.1). An error is one sentence that never
//! repeats the password.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::options::keyspace::keyspace_is_valid;
use crate::options::{Options, Tls};

const SYNTAX: &str = "it should read cassandra://[USER@]HOST[:PORT][,HOST…]/KEYSPACE[?OPTION=VALUE&…]";
const OPTIONS: &str = "the options are tls=yes, ca=FILE, cert=FILE, key=FILE, password-file=FILE, dc=NAME, sweep-after=SECONDS, \
                       sweep-every=SECONDS and sweep-lease=SECONDS";

/// The options of an address.
#[derive(Default)]
struct UrlOptions {
    tls: Option<bool>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    password_file: Option<PathBuf>,
    datacenter: Option<String>,
    sweep_after: Option<Duration>,
    sweep_every: Option<Duration>,
    sweep_lease: Option<Duration>,
}

impl Options {
    /// From an address; reads the file that `password-file` names.
    pub fn from_url(url: &str) -> Result<Self, String> {
        let shown = without_login(url);
        let wrong = |why: &str| format!("{shown}: {why}");
        let rest = url
            .strip_prefix("cassandra://")
            .ok_or_else(|| wrong(&format!("it is no cassandra:// address; {SYNTAX}")))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, keyspace) =
            rest.rsplit_once('/').ok_or_else(|| wrong(&format!("the keyspace is missing; {SYNTAX}")))?;
        if !keyspace_is_valid(keyspace) {
            return Err(wrong(
                "a keyspace has lower-case letters, digits and _ only, 48 at most, a letter first",
            ));
        }
        let (login, hosts) = match place.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, place),
        };
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if let Some(host) = hosts.iter().find(|host| !is_host(host)) {
            return Err(wrong(&format!("`{host}` is no HOST or HOST:PORT; {SYNTAX}")));
        }
        let given = parse_options(query).map_err(|why| wrong(&why))?;
        let mut options = Self::new(hosts, keyspace);
        options.login = login_of(login, given.password_file).map_err(|why| wrong(&why))?;
        options.tls = tls(given.tls, given.ca, given.cert, given.key).map_err(|why| wrong(&why))?;
        options.datacenter = given.datacenter;
        options.sweep_after = given.sweep_after.unwrap_or(options.sweep_after);
        options.sweep_every = given.sweep_every.unwrap_or(options.sweep_every);
        options.sweep_lease = given.sweep_lease.unwrap_or(options.sweep_lease);
        Ok(options)
    }
}

/// The address without user and password, for messages and logs.
fn without_login(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let shown = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    if scheme.is_empty() { shown.to_owned() } else { format!("{scheme}://{shown}") }
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        // [::1] and [::1]:9042; an address with colons needs its brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let host_ok = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(is_name),
    };
    host_ok && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn parse_options(query: &str) -> Result<UrlOptions, String> {
    let mut given = UrlOptions::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(format!("`{pair}` has no value; {OPTIONS}"))?;
        let value = decoded(value).filter(|value| !value.is_empty());
        let value =
            value.ok_or(format!("the value of `{name}` is empty or not percent-encoded as it should be"))?;
        let path = || Some(PathBuf::from(&value));
        let seconds = || {
            let number = value.parse().map_err(|_| format!("`{name}={value}` is not a number of seconds"));
            number.map(|number| Some(Duration::from_secs(number)))
        };
        match name {
            "tls" => {
                given.tls = Some(match value.as_str() {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(format!("`tls={value}` is neither tls=yes nor tls=no")),
                });
            }
            "ca" => given.ca = path(),
            "cert" => given.cert = path(),
            "key" => given.key = path(),
            "password-file" => given.password_file = path(),
            "dc" => given.datacenter = Some(value),
            "sweep-after" => given.sweep_after = seconds()?,
            "sweep-every" => given.sweep_every = seconds()?,
            "sweep-lease" => given.sweep_lease = seconds()?,
            _ => return Err(format!("there is no option `{name}`; {OPTIONS}")),
        }
    }
    Ok(given)
}

fn login_of(login: Option<&str>, file: Option<PathBuf>) -> Result<Option<(String, String)>, String> {
    let Some(login) = login else {
        return match file {
            Some(_) => Err("password-file needs a user: cassandra://USER@HOST/KEYSPACE".into()),
            None => Ok(None),
        };
    };
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (login, None),
    };
    let user =
        decoded(user).filter(|user| !user.is_empty()).ok_or("the user before @ is empty or badly encoded")?;
    let password = match (password, file) {
        (Some(_), Some(_)) => return Err("a password and a password-file: one of them is enough".into()),
        (Some(password), None) => {
            decoded(password).ok_or("the password is not percent-encoded as it should be")?
        }
        (None, Some(file)) => {
            let text =
                fs::read_to_string(&file).map_err(|e| format!("password-file {}: {e}", file.display()))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        (None, None) => return Err(format!("user {user} has no password; add password-file=FILE")),
    };
    Ok(Some((user, password)))
}

fn tls(
    wanted: Option<bool>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<Tls>, String> {
    if !wanted.unwrap_or(false) {
        return match ca.or(cert).or(key) {
            // An administrator who sets these expects encryption.
            Some(_) => Err("ca, cert and key are for encrypted connections; add tls=yes".into()),
            None => Ok(None),
        };
    }
    let ca =
        ca.ok_or("tls=yes needs ca=FILE: the PEM file of the authority that signed the nodes' certificates")?;
    let client = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return Err("cert=FILE and key=FILE go together".into()),
    };
    Ok(Some(Tls { ca, client }))
}

/// Undoes percent-encoding; `None` if it is wrong, or not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses() {
        let options = Options::from_url("cassandra://a:9042,b,[::1]:1,[::1]/mail").unwrap();
        assert_eq!(options.hosts, ["a:9042", "b", "[::1]:1", "[::1]"]);
        assert_eq!((options.keyspace.as_str(), options.login, options.tls), ("mail", None, None));
        let options =
            Options::from_url("cassandra://ana:s%40cret%2f@a/mail?tls=yes&ca=/etc/my%20ca.pem&dc=east");
        let options = options.unwrap();
        assert_eq!(options.login, Some(("ana".into(), "s@cret/".into())));
        assert_eq!(options.tls, Some(Tls { ca: "/etc/my ca.pem".into(), client: None }));
        assert_eq!(options.datacenter.as_deref(), Some("east"));
        let swept = Options::from_url("cassandra://a/m?sweep-after=60&sweep-every=0&sweep-lease=9").unwrap();
        let seconds = [swept.sweep_after, swept.sweep_every, swept.sweep_lease].map(|time| time.as_secs());
        assert_eq!(seconds, [60, 0, 9]);
        let options = Options::from_url("cassandra://a/m?tls=yes&ca=c&cert=x&key=y").unwrap();
        assert_eq!(options.tls.unwrap().client, Some(("x".into(), "y".into())));
    }

    #[test]
    fn a_password_may_stand_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "from the file\nsecond line\n").unwrap();
        let url = format!("cassandra://ana@a/mail?password-file={}", file.path().display());
        assert_eq!(Options::from_url(&url).unwrap().login, Some(("ana".into(), "from the file".into())));
        let both = url.replace("ana@", "ana:x@");
        assert!(Options::from_url(&both).unwrap_err().contains("one of them"));
        fs::remove_file(file.path()).unwrap();
        assert!(Options::from_url(&url).unwrap_err().contains("password-file /"));
    }

    #[test]
    fn errors_name_the_wrong_part() {
        for (url, word) in [
            ("lmdb:/x", "no cassandra://"),
            ("cassandra://a", "keyspace is missing"),
            ("cassandra:///mail", "`` is no HOST"),
            ("cassandra://a,/mail", "`` is no HOST"),
            ("cassandra://a:x/mail", "`a:x` is no HOST"),
            ("cassandra://a:0/mail", "`a:0` is no HOST"),
            ("cassandra://::1/mail", "`::1` is no HOST"),
            ("cassandra://a/Mail", "lower-case"),
            ("cassandra://ana@a/mail", "add password-file"),
            ("cassandra://:p@a/mail", "user before @"),
            ("cassandra://u:%zz@a/mail", "password is not percent-encoded"),
            ("cassandra://a/mail?password-file=x", "needs a user"),
            ("cassandra://a/mail?tls=yes", "needs ca=FILE"),
            ("cassandra://a/mail?tls=maybe", "neither tls=yes"),
            ("cassandra://a/mail?ca=x", "add tls=yes"),
            ("cassandra://a/mail?tls=yes&ca=x&key=y", "go together"),
            ("cassandra://a/mail?color=blue", "no option `color`"),
            ("cassandra://a/mail?dc", "has no value"),
            ("cassandra://a/mail?dc=", "is empty"),
            ("cassandra://a/mail?sweep-after=1h", "not a number of seconds"),
        ] {
            let why = Options::from_url(url).unwrap_err();
            assert!(why.contains(word), "{url}: {why}");
        }
    }

    #[test]
    fn no_message_reveals_the_password() {
        for url in [
            "cassandra://ana:secret@a/Mail",
            "cassandra://ana:secret@a,/m",
            "x://ana:secret@a/m",
            "ana:secret@",
        ] {
            let why = Options::from_url(url).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
        let options = Options::from_url("cassandra://ana:secret@a/mail").unwrap();
        assert_eq!(format!("{options:?}"), "cassandra://a/mail");
    }

    properties! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in "(cassandra://)?[a-z0-9@:/?&=%.,\\[\\]]{0,40}") {
            let _ = Options::from_url(&text);
        }

        #[test]
        fn encoded_values_come_back(text in any::<String>()) {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(decoded(&encoded), Some(text));
        }
    }
}
