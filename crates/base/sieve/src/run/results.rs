//! The actions of a run: which exclude each other, which are one, and which remain in the end. RFC
//! 5228 §2.10.

use crate::effect::{Effect, Target, Version};
use crate::limits::Limits;
use crate::run::fault::Fault;

/// Most notes of a run: a person reads them. A loop may leave out a million actions.
const NOTES_MAX: usize = 64;
/// Bytes of the texts of all actions together: a hundred times those of a long reply.
const TEXTS_BYTES_MAX: usize = 1 << 20;

/// The actions so far.
pub(crate) struct Results {
    effects: Vec<Effect>,
    remembered: Vec<Effect>,
    /// Bytes of the texts of both.
    texts_bytes: usize,
    /// Whether the implicit keep is still in effect (RFC 5228 §2.10.2).
    pub(crate) keeps_implicitly: bool,
    pub(crate) notes: Vec<String>,
    pub(crate) headers: Vec<Vec<u8>>,
    pub(crate) has_vacation: bool,
    redirects: usize,
    redirects_max: usize,
    actions_max: usize,
}

impl Results {
    pub(crate) fn new(limits: &Limits) -> Self {
        Results {
            effects: Vec::new(),
            remembered: Vec::new(),
            texts_bytes: 0,
            keeps_implicitly: true,
            notes: Vec::new(),
            headers: Vec::new(),
            has_vacation: false,
            redirects: 0,
            redirects_max: limits.redirects_max,
            actions_max: limits.actions_max,
        }
    }

    /// The version of the header that an action now stores or sends.
    pub(crate) fn version(&self) -> Version {
        self.headers.len()
    }

    fn push(&mut self, effect: Effect) -> Result<(), Fault> {
        if self.effects.len() >= self.actions_max {
            return Err(Fault(format!("the script takes more than {} actions", self.actions_max)));
        }
        self.count_texts(&effect)?;
        self.effects.push(effect);
        Ok(())
    }

    /// Counts the texts of an action.
    fn count_texts(&mut self, effect: &Effect) -> Result<(), Fault> {
        let bytes = self.texts_bytes + effect.texts_bytes();
        if bytes > TEXTS_BYTES_MAX {
            return Err(Fault(format!(
                "the texts of all actions are longer than {TEXTS_BYTES_MAX} bytes together"
            )));
        }
        self.texts_bytes = bytes;
        Ok(())
    }

    /// Notes why an action is left out.
    pub(crate) fn note(&mut self, why: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(why);
        }
    }

    fn has_reject(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Reject { .. }))
    }

    /// RFC 5429 §2.1: a refused message cannot be delivered as well.
    fn delivers(&self, what: &str) -> Result<(), Fault> {
        match self.has_reject() {
            true => {
                Err(Fault(format!("a message that is rejected cannot be delivered by \"{what}\" as well")))
            }
            false => Ok(()),
        }
    }

    pub(crate) fn keep(&mut self, flags: Vec<String>) -> Result<(), Fault> {
        self.delivers("keep")?;
        self.keeps_implicitly = false;
        let keep = Effect::Keep { flags, version: self.version(), is_implicit: false };
        self.replace_or_push(keep, is_inbox)
    }

    pub(crate) fn file_into(&mut self, target: Target, copy: bool) -> Result<(), Fault> {
        self.delivers("fileinto")?;
        self.keeps_implicitly &= copy;
        let filed = Effect::FileInto { target, version: self.version() };
        if is_inbox(&filed) {
            return self.replace_or_push(filed, is_inbox);
        }
        let named = match &filed {
            Effect::FileInto { target, .. } => target.clone(),
            _ => return Ok(()),
        };
        self.replace_or_push(
            filed,
            |other| matches!(other, Effect::FileInto { target, .. } if target.is_same_mailbox(&named)),
        )
    }

    /// RFC 5228 §2.10.3: into one mailbox, a message is stored once. The later action says how.
    fn replace_or_push(&mut self, effect: Effect, is_same: impl Fn(&Effect) -> bool) -> Result<(), Fault> {
        let Some(at) = self.effects.iter().position(is_same) else { return self.push(effect) };
        self.count_texts(&effect)?;
        if let Some(same) = self.effects.get_mut(at) {
            self.texts_bytes -= same.texts_bytes();
            *same = effect;
        }
        Ok(())
    }

    pub(crate) fn redirect(&mut self, address: String, copy: bool) -> Result<(), Fault> {
        self.delivers("redirect")?;
        self.keeps_implicitly &= copy;
        // RFC 5228 §2.10.3: to one address, a message is sent once.
        let is_same =
            |effect: &Effect| matches!(effect, Effect::Redirect { address: other, .. } if *other == address);
        if self.effects.iter().any(is_same) {
            return Ok(());
        }
        self.redirects += 1;
        if self.redirects > self.redirects_max {
            // RFC 5228 §10: a bound on what one message may set loose.
            return Err(Fault(format!("the script redirects to more than {} addresses", self.redirects_max)));
        }
        self.push(Effect::Redirect { address, version: self.version() })
    }

    pub(crate) fn discard(&mut self) {
        self.keeps_implicitly = false;
    }

    /// RFC 5429 §2.1, §2.2.
    pub(crate) fn reject(&mut self, reason: String, is_strict: bool) -> Result<(), Fault> {
        if self.has_vacation {
            return Err(Fault::new("a message cannot be rejected and answered by \"vacation\""));
        }
        for effect in &self.effects {
            let what = match effect {
                Effect::Reject { .. } => "rejected twice",
                Effect::Keep { .. } | Effect::FileInto { .. } => "rejected and stored",
                Effect::Redirect { .. } => "rejected and redirected",
                Effect::Vacation(_) | Effect::Discard | Effect::Notify(_) | Effect::Remember { .. } => {
                    continue;
                }
            };
            return Err(Fault(format!("a message cannot be {what}")));
        }
        self.keeps_implicitly = false;
        self.push(Effect::Reject { reason, is_strict })
    }

    /// RFC 5230 §4.7: one reply at most, and none to a refused message. `None` is a reply that
    /// need not be sent.
    pub(crate) fn vacation(&mut self, effect: Option<Effect>) -> Result<(), Fault> {
        if self.has_reject() {
            return Err(Fault::new("a message cannot be rejected and answered by \"vacation\""));
        }
        effect.map_or(Ok(()), |effect| self.push(effect))
    }

    /// The same notification is sent once.
    pub(crate) fn notify(&mut self, effect: Effect) -> Result<(), Fault> {
        if self.effects.contains(&effect) {
            return Ok(());
        }
        self.push(effect)
    }

    pub(crate) fn remember(&mut self, key: String, seconds: Option<u64>) {
        let is_same =
            |effect: &Effect| matches!(effect, Effect::Remember { key: other, .. } if *other == key);
        if self.remembered.iter().any(is_same) || self.remembered.len() >= self.actions_max {
            return;
        }
        let effect = Effect::Remember { key, seconds };
        // An id that is too long is new each time.
        if self.count_texts(&effect).is_ok() {
            self.remembered.push(effect);
        }
    }

    pub(crate) fn is_remembered(&self, key: &str) -> bool {
        self.remembered
            .iter()
            .any(|effect| matches!(effect, Effect::Remember { key: other, .. } if other == key))
    }

    /// Everything to do, in order.
    pub(crate) fn finish(&mut self, flags: Vec<String>) -> Vec<Effect> {
        let mut effects = std::mem::take(&mut self.effects);
        if self.keeps_implicitly {
            let version = self.headers.len();
            // A message that `fileinto :copy` stored in the inbox is kept already.
            if !effects.iter().any(is_inbox) {
                effects.push(Effect::Keep { flags, version, is_implicit: true });
            }
        } else if effects.iter().all(|effect| matches!(effect, Effect::Notify(_) | Effect::Vacation(_))) {
            effects.push(Effect::Discard);
        }
        effects.append(&mut self.remembered);
        effects
    }
}

fn is_inbox(effect: &Effect) -> bool {
    match effect {
        Effect::Keep { .. } => true,
        Effect::FileInto { target, .. } => {
            target.mailbox.eq_ignore_ascii_case("INBOX")
                && target.mailbox_id.is_none()
                && target.special_use.is_none()
        }
        _ => false,
    }
}
