//! The configuration file: `../default.toml` is its documentation, its list of keys
//! and its defaults, all in one. A key that is not in it is an error that names the nearest one
//! that is.
//!
//! The fuzz target `config` includes this module. The paths lead the check of fuzz targets
//! (`crates/dev/house/src/fuzz.rs`) to the parts.

#[path = "authentication.rs"]
mod authentication;
#[path = "error.rs"]
mod error;
#[cfg(test)]
#[path = "fuzzing.rs"]
mod fuzzing;
#[path = "imap.rs"]
mod imap;
#[path = "limits.rs"]
mod limits;
#[path = "login.rs"]
mod login;
#[path = "oauth.rs"]
mod oauth;
#[path = "relay.rs"]
mod relay;
#[path = "reports.rs"]
mod reports;
#[path = "retention.rs"]
mod retention;
#[path = "screening.rs"]
mod screening;
#[path = "sieve.rs"]
mod sieve;
#[path = "tls.rs"]
mod tls;
#[path = "values.rs"]
mod values;
#[path = "waiting.rs"]
mod waiting;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use posthaste_directory::{Address, Format, FormatSettings, LoginSettings, Network, Precompute};
use posthaste_mail_model::masked_text;
use posthaste_net::SocketAddress;
use posthaste_store::Row;
use posthaste_store::compressed::Compression;
use serde::Deserialize;

use crate::failure::Failure;
pub use authentication::Authentication;
pub use error::ConfigError;
pub use imap::{COMMAND_LIMIT_MIN, Imap};
pub use limits::Limits;
pub use login::{Certificates, Login, Plaintext};
pub use oauth::Oauth;
pub use relay::{Relay, RouteAccept};
pub use reports::{MtaSts, Reports};
pub use retention::Retention;
pub use screening::{RspamdFailure, Screening};
pub use sieve::Sieve;
pub use tls::{ClientCertificates, Tls};
pub use values::Auto;
use values::{networks, period, permissions, places, timeout};

/// The documented default, as `posthaste config --default` prints it.
pub const DEFAULT: &str = include_str!("../default.toml");

/// Everything a file can set. `default.toml` explains each of them.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    pub data: PathBuf,
    pub engine: String,
    pub bodies: String,
    pub domain: String,
    pub hostname: String,
    pub postmaster: String,
    pub user: String,
    pub group: String,
    pub listen: Listen,
    pub tls: Tls,
    pub login: Login,
    pub oauth: Oauth,
    pub imap: Imap,
    pub search: Search,
    pub authentication: Authentication,
    pub screening: Screening,
    pub submission: Submission,
    pub relay: Relay,
    pub mta_sts: MtaSts,
    pub reports: Reports,
    pub sieve: Sieve,
    pub limits: Limits,
    pub retention: Retention,
    pub store: StoreConfig,
    pub s3: S3,
    pub log: Log,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Listen {
    pub imap: Vec<SocketAddr>,
    pub imaps: Vec<SocketAddr>,
    pub pop3: Vec<SocketAddr>,
    pub pop3s: Vec<SocketAddr>,
    #[serde(deserialize_with = "places")]
    pub lmtp: Vec<SocketAddress>,
    #[serde(deserialize_with = "permissions")]
    pub lmtp_socket_mode: u32,
    pub lmtp_socket_group: String,
    pub submission: Vec<SocketAddr>,
    pub submissions: Vec<SocketAddr>,
    pub smtp: Vec<SocketAddr>,
    pub sieve: Vec<SocketAddr>,
    pub https: Vec<SocketAddr>,
    pub metrics: Vec<SocketAddr>,
    #[serde(deserialize_with = "networks")]
    pub proxy_networks: Vec<Network>,
}

/// The settings of submission by users who logged in.
#[derive(Debug, Clone, Deserialize)]
pub struct Submission {
    pub sender: SenderRule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SenderRule {
    Own,
    Envelope,
    Any,
}

/// The settings of SEARCH for texts.
#[derive(Debug, Clone, Deserialize)]
pub struct Search {
    pub index: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct StoreConfig {
    pub cache: Auto<ByteSize>,
    pub index_map: ByteSize,
    pub format: Format,
    pub keep_original: bool,
    pub precompute: Precompute,
    pub compress: Compress,
}

/// The compression of new messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compress {
    None,
    Zstd,
}

impl StoreConfig {
    /// The least that `index_map` may be: an empty index and some thousand messages.
    const INDEX_MAP_MIN: u64 = 64 << 20;

    /// Bytes of address space for the index of the embedded engine: whole pages of any system.
    pub fn index_map_bytes(&self) -> usize {
        const PAGE: usize = 64 << 10;
        usize::try_from(self.index_map.as_u64()).unwrap_or(usize::MAX) / PAGE * PAGE
    }

    fn check(&self) -> Result<(), String> {
        match self.index_map.as_u64() >= Self::INDEX_MAP_MIN {
            true => Ok(()),
            false => Err("`store.index_map` must be at least 64 MiB: it bounds the index".into()),
        }
    }

    /// The compression of new messages that need no other form.
    pub fn compression(&self) -> Compression {
        match self.compress {
            Compress::None => Compression::None,
            Compress::Zstd => Compression::Zstd,
        }
    }

    /// The form of messages of accounts that do not set one.
    pub fn format_settings(&self) -> FormatSettings {
        FormatSettings { format: self.format, keep_original: self.keep_original }
    }
}

/// Access to the store of bodies; what is empty or false is taken from the environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct S3 {
    pub endpoint: String,
    pub region: String,
    pub access_key_id: String,
    pub secret_access_key_file: PathBuf,
    pub allow_http: bool,
    pub virtual_host: bool,
    pub ca: PathBuf,
    #[serde(deserialize_with = "timeout")]
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
    #[serde(deserialize_with = "period")]
    pub long_polls: Duration,
}

impl Default for Config {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "the file is part of the program, and a test parses it")]
        toml::from_str(DEFAULT).and_then(Self::of).expect("default.toml is valid")
    }
}

impl Config {
    /// Reads a file.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| ConfigError::Read { file: file.to_owned(), source })?;
        Self::parse(file, &text)
    }

    /// Reads a file's text; `file` is only for the errors. These repeat values, without passwords.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let invalid = |message: String| {
            let message = masked_text(&message);
            ConfigError::Invalid { file: file.to_owned(), message }
        };
        let table: toml::Table = toml::from_str(text).map_err(|e| invalid(e.to_string()))?;
        let mut merged: toml::Table = toml::from_str(DEFAULT).map_err(|e| invalid(e.to_string()))?;
        let (known, given) = (keys(&merged), keys(&table));
        if let Some(key) = given.into_iter().find(|key| !known.contains(key)) {
            return Err(ConfigError::UnknownKey {
                file: file.to_owned(),
                nearest: nearest(&key, &known),
                key,
            });
        }
        merge(&mut merged, table);
        let config = Self::of(merged).map_err(|e| invalid(e.to_string()))?;
        config.check().map_err(invalid)?;
        Ok(config)
    }

    /// Every setting is read from a table, and none from text: so the compiler makes the code that
    /// reads them once.
    fn of(table: toml::Table) -> Result<Self, toml::de::Error> {
        table.try_into()
    }

    /// The settings for people: addresses and URLs without passwords, and without the values of
    /// queries. All other secrets are in files of their own.
    pub fn shown(&self) -> String {
        masked_text(&format!("{self:#?}"))
    }

    /// The address that is configured for mail to a postmaster whose address nobody has.
    pub fn postmaster(&self) -> Option<String> {
        let name = Some(&self.postmaster).filter(|name| !name.is_empty())?;
        Some(if name.contains('@') { name.clone() } else { format!("{name}@{}", self.domain) })
    }

    /// The ways to log in other than passwords. Reads the secret of `oauth`.
    pub fn logins(&self) -> Result<LoginSettings, Failure> {
        let tokens = self.oauth.tokens(&self.domain)?;
        Ok(LoginSettings { certificates: self.login.certificates.into(), tokens })
    }

    /// Checks rules that the types do not express.
    fn check(&self) -> Result<(), String> {
        self.tls.check()?;
        self.login.check()?;
        self.oauth.check()?;
        if self.login.certificates != Certificates::Off
            && self.tls.client_certificates == ClientCertificates::Off
        {
            return Err(
                "`login.certificates` needs `tls.client_certificates` (\"optional\" or \"required\") and \
                        `tls.client_ca`: otherwise the server requests no certificate from clients"
                    .into(),
            );
        }
        self.store.check()?;
        self.imap.check()?;
        self.relay.check()?;
        self.mta_sts.check()?;
        self.reports.check()?;
        self.screening.check()?;
        self.retention.check()?;
        self.limits.check_accounts()?;
        // "auto" is no larger than the budgets that are set.
        let size = self.limits.message_len();
        if size == 0 || size >= u64::from(Row::WITHOUT_ITEMS) {
            return Err("`limits.message_size` must be more than 0 and less than 3.75 GiB".into());
        }
        self.limits.check_queued()?;
        let limits = &self.limits;
        let is_auto = limits.message_size == Auto::Auto;
        for (key, set) in
            [("limits.incoming_bytes", limits.incoming_bytes), ("limits.reading_bytes", limits.reading_bytes)]
        {
            if set.map(ByteSize::as_u64).is_some_and(|bytes| !is_auto && bytes < size) {
                return Err(format!("`{key}` must be at least `limits.message_size`"));
            }
        }
        let least = posthaste_delivery::summary_memory_max(size as usize) as u64;
        if limits.summary_bytes.map(ByteSize::as_u64).is_some_and(|bytes| !is_auto && bytes < least) {
            let least = ByteSize::b(least).display().iec();
            return Err(format!(
                "`limits.summary_bytes` must be at least {least}: what the summary of a message of \
                 `limits.message_size` may take"
            ));
        }
        if self.s3.access_key_id.is_empty() != self.s3.secret_access_key_file.as_os_str().is_empty() {
            return Err(
                "`s3.access_key_id` and `s3.secret_access_key_file` go together: set both, or neither".into(),
            );
        }
        if self.domain.is_empty() {
            return Err("`domain` must not be empty; \"localhost\" is the default".into());
        }
        if let Some(postmaster) = self.postmaster() {
            Address::parse(&postmaster).map_err(|why| format!("`postmaster` is no address: {why}"))?;
        }
        Ok(())
    }
}

/// Whether the address of an engine has a password in it, between `:` and `@`.
pub fn has_password(engine: &str) -> bool {
    login(engine).is_some_and(|login| login.contains(':'))
}

/// The part before the `@` of an address.
fn login(engine: &str) -> Option<&str> {
    let (_, rest) = engine.split_once("://")?;
    let place = rest.split_once('?').map_or(rest, |(place, _)| place);
    place.rsplit_once('@').map(|(login, _)| login)
}

/// Lays the values of the file over the defaults.
fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(over)) => merge(inner, over),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// Every key of a table as a dotted path.
fn keys(table: &toml::Table) -> Vec<String> {
    let mut out = Vec::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => {
                out.push(key.clone());
                out.extend(keys(inner).into_iter().map(|k| format!("{key}.{k}")));
            }
            _ => out.push(key.clone()),
        }
    }
    out
}

/// The known key most like `key`, its last part weighing most; `None` if none is at all like it.
fn nearest(key: &str, known: &[String]) -> Option<String> {
    let last = |k: &str| k.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness =
        |k: &String| strsim::jaro_winkler(key, k).max(0.99 * strsim::jaro_winkler(&last(key), &last(k)));
    known
        .iter()
        .map(|k| (likeness(k), k))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k.clone())
}

#[cfg(test)]
mod tests {
    use posthaste_directory::Policy;

    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("posthaste.toml"), text)
    }

    #[test]
    fn the_default_file_sets_every_key_and_is_the_default() {
        let config = parse(DEFAULT).unwrap();
        assert_eq!(config.limits.message_size, Auto::Auto);
        assert_eq!(config.limits.idle_timeout, Duration::from_secs(30 * 60));
        assert_eq!(format!("{config:?}"), format!("{:?}", parse("").unwrap()));
        assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
    }

    #[test]
    fn passwords_are_kept_as_the_directory_would_have_it() {
        assert_eq!(parse("").unwrap().login.policy(), Policy::default());
        let none = parse("[login]\nscram_iterations = 0").unwrap().login.policy();
        assert_eq!(none.scram_iterations, None);
    }

    /// A line for each key that takes text, and for the text of each list, with this value.
    fn lines_with(table: &toml::Table, prefix: &str, value: &str) -> Vec<String> {
        let lines = table.iter().flat_map(|(key, default)| match default {
            toml::Value::Table(inner) => lines_with(inner, &format!("{prefix}{key}."), value),
            toml::Value::Array(_) => vec![format!("{prefix}{key} = [{value:?}]")],
            toml::Value::String(_) => vec![format!("{prefix}{key} = {value:?}")],
            _ => Vec::new(),
        });
        lines.collect()
    }

    /// Whether a value is shown or refused, nobody reads the password that is in it.
    #[test]
    fn no_key_shows_the_password_of_an_address() {
        let defaults: toml::Table = toml::from_str(DEFAULT).unwrap();
        let mut shown = 0;
        for value in ["u:SECRET@h:25", "https://u:SECRET@h/x?client_secret=SECRET", "u:SECRET \"x@h"] {
            let mut lines = lines_with(&defaults, "", value);
            lines.extend([
                format!("relay.routes = [{{ domain = \"a.example\", host = {value:?} }}]"),
                format!("screening.milters = [{{ at = {value:?} }}]"),
                format!("screening.block_lists = [{{ zone = {value:?} }}]"),
                // Not TOML: the error shows the line.
                format!("relay.smarthost = {value:?} x"),
            ]);
            for line in lines {
                let text = match parse(&line) {
                    Ok(config) => config.shown(),
                    Err(error) => error.to_string(),
                };
                assert!(!text.contains("SECRET"), "{line}: {text}");
                shown += usize::from(text.contains("u:…"));
            }
        }
        assert!(shown > 50, "{shown}");
        let text = parse("oauth.introspection = \"https://h/x?client_secret=SECRET\"").unwrap().shown();
        assert!(text.contains("\"https://h/x?client_secret=…\""), "{text}");
    }

    #[test]
    fn a_part_of_a_section_leaves_the_rest_at_its_default() {
        let config = parse("[limits]\nconnections = 7").unwrap();
        let limits = config.limits;
        assert_eq!((limits.connections, limits.connections_per_address), (Auto::Is(7), Auto::Auto));
    }

    #[test]
    fn an_unknown_key_is_named_with_the_nearest_known_one() {
        let error = |text| parse(text).unwrap_err().to_string();
        assert_eq!(
            error("[limits]\nmesage_size = \"1 MiB\""),
            "posthaste.toml: unknown key `limits.mesage_size`; did you mean `limits.message_size`?"
        );
        assert_eq!(error("[lisen]"), "posthaste.toml: unknown key `lisen`; did you mean `listen`?");
        assert_eq!(error("qqq = 1"), "posthaste.toml: unknown key `qqq`");
    }

    #[test]
    fn a_bad_value_is_named_with_its_remedy() {
        let error = |text| parse(text).unwrap_err().to_string();
        assert!(error("[listen]\nimap = [\"here\"]").contains("imap"));
        assert!(error("[imap]\nadmin = \"postmaster@example.org\"").contains("must be a URI"));
        for url in ["http://example.org/jmap", "https:///jmap", "https://me@example.org/", "https://a/\\\"b"]
        {
            let section = format!("[imap]\njmap_url = \"{url}\"");
            let text = parse(&section).unwrap_err().to_string();
            assert!(text.contains("`imap.jmap_url`") && text.contains("such as"), "{text}");
        }
        let relative = error("[listen]\nlmtp = [\"unix:lmtp.sock\"]");
        assert!(relative.contains("lmtp") && relative.contains("an absolute path"), "{relative}");
        let mode = error("[listen]\nlmtp_socket_mode = \"rw\"");
        assert!(mode.contains("lmtp_socket_mode") && mode.contains("0660"), "{mode}");
        assert!(error("[login]\ntrusted_networks = [\"10.0.0.1/8\"]").contains("write 10.0.0.0/8"));
        let networks = error("[listen]\nproxy_networks = [\"10.0.0.1/8\"]");
        assert!(networks.contains("write 10.0.0.0/8") && networks.contains("proxy_networks"), "{networks}");
        assert!(
            error("[login]\nscram_iterations = 100").contains("`login.scram_iterations` must be from 4096")
        );
        assert!(error("[login]\nargon2_memory = \"1 MiB\"").contains("from 7 MiB to 1 GiB"));
        assert!(
            error("[login]\nscram_iterations = 0\nscram_sha1 = true")
                .contains("needs `login.scram_iterations`")
        );
        assert!(error("[login]\nargon2_passes = 0").contains("from 1 to 20"));
        assert!(error("[login]\npassword_length_min = 0").contains("from 1 to 64"));
        assert!(error("[limits]\nidle_timeout = \"soon\"").contains("\"soon\" is not a time"));
        assert!(error("[tls]\nkey = \"k.pem\"").contains("go together"));
        let other = "[tls]\nothers = [{ certificate = \"c\", key = \"k\" }]";
        assert!(error(other).contains("`tls.certificate` and `tls.key`: set these first"));
        assert!(error("[tls]\nothers = [{ certificate = \"c\", kee = \"k\" }]").contains("kee"));
        assert!(error("[tls]\nversion_min = \"1.1\"").contains("version_min"));
        assert!(error("[login]\ncertificates = \"email\"").contains("needs `tls.client_certificates`"));
        assert!(error("[login]\ncertificates = \"yes\"").contains("certificates"));
        for half in ["client_certificates = \"required\"", "client_ca = \"ca.pem\""] {
            let said = parse(&format!("[tls]\n{half}")).unwrap_err().to_string();
            assert!(said.contains("`tls.client_ca` go together"), "{said}");
        }
        assert!(error("[s3]\naccess_key_id = \"k\"").contains("`s3.secret_access_key_file` go together"));
        let slow = error("[limits]\naccount_sent_per_hour = \"1 MiB\"");
        assert!(slow.contains("at least 64 MiB, or 0 for no limit"), "{slow}");
        assert!(error("[limits]\nmessage_size = \"9 GiB\"").contains("less than 3.75 GiB"));
        assert!(error("[store]\nprecompute = \"always\"").contains("`delivery`, `first-fetch`"));
        assert_eq!(parse("").unwrap().store.compression(), Compression::None);
        assert_eq!(parse("[store]\ncompress = \"zstd\"").unwrap().store.compression(), Compression::Zstd);
        assert!(error("[store]\ncompress = \"gzip\"").contains("`none`"));
        let lazy = parse("[store]\nprecompute = \"first-fetch\"").unwrap().store.precompute;
        assert_eq!(lazy, Precompute::FirstFetch);
    }
}
