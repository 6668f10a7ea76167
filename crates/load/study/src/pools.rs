//! The users of a study, by what they do: registered ones have an account, some of them get mail,
//! and some of these are at work.

use posthaste_load_text::{Mistake, Source};
use serde::Deserialize;
use toml::Spanned;

/// The number of users on this machine by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Users {
    /// Users with an account that has mail.
    pub registered: u32,
    /// Users that get mail.
    pub receiving: u32,
    /// Users at work.
    pub active: u32,
}

/// The numbers of the article, and the factor that fits them to the machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPools {
    registered: Spanned<u32>,
    receiving: u32,
    active: u32,
    scale: Spanned<f64>,
}

/// The pools of a file. One factor scales all of them, so that their ratios stay.
pub(crate) fn read(source: Source, raw: &RawPools) -> Result<Users, Mistake> {
    let scale = *raw.scale.get_ref();
    if !(scale > 0.0 && scale <= 100.0) {
        return Err(source.at(raw.scale.span(), "`scale` is a factor above 0, and 100 at most"));
    }
    let registered = *raw.registered.get_ref();
    if registered < raw.receiving || raw.receiving < raw.active || raw.active == 0 {
        let what = "`active` users are among the `receiving` ones, and these among the `registered` ones";
        return Err(source.at(raw.registered.span(), what));
    }
    let of = |number: u32| (f64::from(number) * scale).round().max(1.0) as u32;
    Ok(Users { registered: of(registered), receiving: of(raw.receiving), active: of(raw.active) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str) -> Result<Users, String> {
        let source = Source { file: "x.toml", text };
        let raw: RawPools = source.read().map_err(|e| e.to_string())?;
        read(source, &raw).map_err(|e| e.to_string())
    }

    #[test]
    fn one_factor_scales_all() {
        let text = "registered = 4500\nreceiving = 3600\nactive = 1200\nscale = 0.01\n";
        assert_eq!(users(text), Ok(Users { registered: 45, receiving: 36, active: 12 }));
        assert!(users(&text.replace("0.01", "0.0")).unwrap_err().contains("factor"));
        assert!(users(&text.replace("1200", "4000")).unwrap_err().contains("among"));
    }
}
