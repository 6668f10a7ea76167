//! A mix: users of several kinds on one server at the same time, each kind with a workload.

use posthaste_load_text::{Mistake, Source};
use serde::Deserialize;
use toml::Spanned;

use crate::builtin::{is_mix, text_of};
use crate::file;
use crate::{Protocol, Workload};

/// Most kinds of users in a mix: each is a run of its own, with threads of its own.
const KINDS_MAX: usize = 16;

/// A kind of users.
#[derive(Clone, Debug)]
pub struct UserKind {
    /// The users' workload.
    pub workload: Workload,
    /// The number of users of this kind, relative to the other kinds.
    pub share: f64,
}

/// The workloads of virtual users: one for all, or several kinds of users.
#[derive(Clone, Debug)]
pub struct Mix {
    /// The mix's name: that of the workload if there is one kind.
    pub name: String,
    /// The description for people.
    pub description: String,
    /// The kinds, at least one.
    pub kinds: Vec<UserKind>,
    /// The file, whole.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMix {
    name: Spanned<String>,
    description: String,
    users: Vec<RawUsers>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUsers {
    workload: Spanned<String>,
    share: Spanned<f64>,
}

/// A workload or a mix: a built-in one by name, or a file by path.
///
/// # Errors
/// The fault of the name or the file, and its place.
pub fn load_mix(name: &str) -> Result<Mix, Mistake> {
    let text = text_of(name)?;
    match is_mix(&text) {
        true => parse_mix(&text, name),
        false => Ok(Mix::from(file::parse(&text, name)?)),
    }
}

/// Reads a mix; `file` is what errors call it.
fn parse_mix(text: &str, file: &str) -> Result<Mix, Mistake> {
    let source = Source { file, text };
    let raw: RawMix = source.read()?;
    if raw.users.len() > KINDS_MAX {
        return Err(source.at(raw.name.span(), &format!("a mix has at most {KINDS_MAX} kinds of users")));
    }
    let mut kinds: Vec<UserKind> = Vec::new();
    for users in raw.users {
        let (at, share) = (users.workload.span(), *users.share.get_ref());
        if !(share > 0.0 && share <= 1e6) {
            return Err(source.at(users.share.span(), "a `share` is a number above zero"));
        }
        let workload = file::load(users.workload.get_ref())
            .map_err(|mistake| source.at(at.clone(), &mistake.to_string()))?;
        if kinds.iter().any(|kind| kind.workload.name == workload.name) {
            return Err(source.at(at, "each kind of users has a workload of its own"));
        }
        if kinds.first().is_some_and(|first| first.workload.protocol != workload.protocol) {
            return Err(source.at(at, "all kinds of users speak one protocol"));
        }
        kinds.push(UserKind { workload, share });
    }
    Ok(Mix { name: raw.name.into_inner(), description: raw.description, kinds, source: text.to_owned() })
}

impl From<Workload> for Mix {
    fn from(workload: Workload) -> Self {
        Self {
            name: workload.name.clone(),
            description: workload.description.clone(),
            source: workload.source.clone(),
            kinds: vec![UserKind { workload, share: 1.0 }],
        }
    }
}

impl Mix {
    /// The number of users of each kind, by the shares: at least one of each kind, and `users` in
    /// all. `None` if there are fewer users than kinds.
    pub fn split(&self, users: u32) -> Option<Vec<u32>> {
        let sum: f64 = self.kinds.iter().map(|kind| kind.share).sum();
        let kinds = u32::try_from(self.kinds.len()).ok()?;
        let beyond_one_each = users.checked_sub(kinds)?;
        let exact = |kind: &UserKind| f64::from(users) * kind.share / sum;
        let mut counts: Vec<u32> = self
            .kinds
            .iter()
            .map(|kind| (exact(kind).floor() as u32).clamp(1, beyond_one_each + 1))
            .collect();
        // The rest goes, one by one, to those who have least of what is theirs.
        while counts.iter().sum::<u32>() != users {
            let missing = counts.iter().sum::<u32>() < users;
            let lacks = |at: &usize| {
                let (kind, count) = (self.kinds.get(*at), counts.get(*at));
                kind.zip(count).map_or(0.0, |(kind, count)| exact(kind) - f64::from(*count))
            };
            let by_lack = |a: &usize, b: &usize| lacks(a).total_cmp(&lacks(b));
            let all = 0..counts.len();
            let at = match missing {
                true => all.max_by(by_lack)?,
                false => all.filter(|at| counts.get(*at).is_some_and(|n| *n > 1)).min_by(by_lack)?,
            };
            let count = counts.get_mut(at)?;
            *count = if missing { *count + 1 } else { *count - 1 };
        }
        Some(counts)
    }

    /// The protocol of its users.
    pub fn protocol(&self) -> Protocol {
        self.kinds.first().map_or(Protocol::Imap, |kind| kind.workload.protocol)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;
    use crate::MIXES;

    fn mix(shares: &[f64]) -> Mix {
        let workload = file::load("inbox-sync").unwrap();
        let kinds = shares.iter().map(|share| UserKind { workload: workload.clone(), share: *share });
        Mix { kinds: kinds.collect(), ..Mix::from(workload) }
    }

    #[test]
    fn users_are_split_by_their_shares() {
        assert_eq!(mix(&[3.0, 1.0]).split(100), Some(vec![75, 25]));
        assert_eq!(mix(&[3.0, 1.0]).split(2), Some(vec![1, 1]));
        assert_eq!(mix(&[1.0, 1.0, 1.0]).split(100).map(|n| n.iter().sum()), Some(100));
        assert_eq!(mix(&[1000.0, 1.0]).split(10), Some(vec![9, 1]));
        assert_eq!(mix(&[3.0, 1.0]).split(1), None);
        assert_eq!(mix(&[1.0]).split(7), Some(vec![7]));
    }

    #[test]
    fn each_built_in_one_is_read_and_named_as_its_file() {
        for (name, text) in MIXES {
            let mix = load_mix(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((mix.name.as_str(), mix.source.as_str()), (*name, *text));
            assert!(mix.kinds.len() > 1);
        }
        let mix = load_mix("online-and-cached").unwrap();
        let kinds: Vec<(&str, f64)> = mix.kinds.iter().map(|k| (k.workload.name.as_str(), k.share)).collect();
        assert_eq!(kinds, [("koka-browse-frequencies", 3.0), ("inbox-sync", 1.0)]);
        assert!(file::load("online-and-cached").unwrap_err().to_string().contains("mix of users"));
        let alone = load_mix("inbox-sync").unwrap();
        assert_eq!((alone.name.as_str(), alone.kinds.len()), ("inbox-sync", 1));
    }

    #[test]
    fn mistakes_have_a_place() {
        let text = MIXES[0].1;
        let said =
            |from: &str, to: &str| parse_mix(&text.replace(from, to), "m.toml").unwrap_err().to_string();
        let line = 1 + text.lines().position(|line| line.contains("inbox-sync")).unwrap();
        let place = format!("m.toml:{line}:");
        assert!(said("inbox-sync", "inbox-snyc").starts_with(&place), "{}", said("inbox-sync", "x"));
        assert!(said("inbox-sync", "inbox-snyc").contains("inbox-sync"));
        assert!(said("share = 1", "share = 0").contains("above zero"));
        assert!(said("share = 1", "shares = 1").contains("nearest known is `share`"));
        assert!(said("inbox-sync", "pop3-check").contains("one protocol"));
        assert!(said("inbox-sync", "koka-browse-frequencies").contains("of its own"));
        assert!(load_mix("online-and-cashed").unwrap_err().to_string().contains("online-and-cached"));
    }

    properties! {
        #[test]
        fn every_user_is_of_one_kind(shares in prop::collection::vec(0.01f64..1000.0, 1..8), users in 1u32..5000) {
            let split = mix(&shares).split(users);
            if users < shares.len() as u32 {
                prop_assert_eq!(split, None);
            } else {
                let split = split.unwrap();
                prop_assert_eq!(split.iter().sum::<u32>(), users);
                prop_assert!(split.iter().all(|n| *n > 0));
            }
        }
    }
}
