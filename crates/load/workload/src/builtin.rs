//! The workloads and mixes shipped in the binary, and files by name.

use std::borrow::Cow;
use std::path::Path;

use posthaste_load_text::{Mistake, suggestion};

/// Name and file of each.
pub const BUILTIN: &[(&str, &str)] = &[
    ("koka-browse", include_str!("../workloads/koka-browse.toml")),
    ("koka-manage", include_str!("../workloads/koka-manage.toml")),
    ("koka-browse-frequencies", include_str!("../workloads/koka-browse-frequencies.toml")),
    ("koka-manage-frequencies", include_str!("../workloads/koka-manage-frequencies.toml")),
    ("inbox-sync", include_str!("../workloads/inbox-sync.toml")),
    ("outlook-express", include_str!("../workloads/outlook-express.toml")),
    ("oe6-busy", include_str!("../workloads/oe6-busy.toml")),
    ("oe6-forgetful", include_str!("../workloads/oe6-forgetful.toml")),
    ("sendmail", include_str!("../workloads/sendmail.toml")),
    ("very-heavy", include_str!("../workloads/very-heavy.toml")),
    ("pop3-check", include_str!("../workloads/pop3-check.toml")),
    ("idle-many", include_str!("../workloads/idle-many.toml")),
    ("platform", include_str!("../workloads/platform.toml")),
    ("operations", include_str!("../workloads/operations.toml")),
    ("select-cold", include_str!("../workloads/select-cold.toml")),
    ("session", include_str!("../workloads/session.toml")),
    ("imaptest", include_str!("../workloads/imaptest.toml")),
];

/// Name and file of each mix of several kinds of users.
pub const MIXES: &[(&str, &str)] = &[
    ("online-and-cached", include_str!("../workloads/online-and-cached.toml")),
    ("online-and-cached-large", include_str!("../workloads/online-and-cached-large.toml")),
];

/// The file of a workload or mix.
fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN.iter().chain(MIXES).find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The file of a built-in workload or mix by name, or a file by path.
pub(crate) fn text_of(name: &str) -> Result<Cow<'static, str>, Mistake> {
    if let Some(text) = builtin(name) {
        return Ok(Cow::Borrowed(text));
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains('/') && !name.ends_with(".toml") {
        let known = BUILTIN.iter().chain(MIXES).map(|(name, _)| *name);
        let hint = suggestion(name, known);
        return Err(Mistake::bare(format!(
            "no workload is called `{name}`{hint}; a file is given by its path"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|e| Mistake::bare(format!("{name}: {e}")))?;
    Ok(Cow::Owned(text))
}

/// Whether the file names kinds of users.
pub(crate) fn is_mix(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "[[users]]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markov::stationary;
    use crate::{Choice, parse};

    #[test]
    fn each_is_read_and_named_as_its_file() {
        for (name, text) in BUILTIN {
            let workload = parse(text, name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(workload.name, *name);
            assert!(!workload.transactions.is_empty() && !workload.description.is_empty());
        }
    }

    #[test]
    fn kokas_tables_are_as_printed() {
        let browse = parse(BUILTIN[0].1, "").unwrap();
        let Choice::Markov { table, .. } = &browse.choice else { panic!("not a table") };
        let sums: Vec<f64> = table.iter().map(|row| row.iter().sum()).collect();
        assert_eq!(sums[4], 101.0, "the printed browsing SELT row");
        // The long run of table 2 is not table 1: SELT 19.9 % against 25 %.
        assert!((stationary(table)[4] - 0.199).abs() < 0.0005, "{:?}", stationary(table));
        let manage = parse(BUILTIN[1].1, "").unwrap();
        let Choice::Markov { table, .. } = &manage.choice else { panic!("not a table") };
        assert_eq!(table[5].iter().sum::<f64>(), 98.0, "the printed e-mgmt COPY row");
        assert!((stationary(table)[6] - 0.256).abs() < 0.0005, "MOVE 25.6 % against 3 %");
    }
}
