//! The end of each login: the account's record is read again, after the last thing that the login
//! waits for. A client may keep an exchange of SCRAM open for minutes, and a password waits for its
//! hash. A change of the account that was acknowledged meanwhile counts. Leases notice later ones
//! (`lease`).
//!
//! The read takes about a microsecond. On a cluster a quorum answers it. A record that is kept is
//! not parsed again (`parsed`).

use std::sync::Arc;

use crate::directory::Directory;
use crate::grant::{By, Login, Proven};
use crate::lease::has_credential;
use crate::login_error::{LoginError, LoginFailure, NO_ACCOUNT, enabled};

impl Directory {
    /// Lets a client in by a credential that was right, if the account still has it and is not
    /// disabled. The login has the account as it is now.
    pub(crate) async fn confirm(&self, proven: Result<Proven, LoginError>) -> Result<Login, LoginError> {
        let Proven(login) = proven?;
        let stored = self.records.stored(&login.account.name).await;
        match stored.map_err(|error| LoginError::at_once(error.into()))? {
            Some(stored) if has_credential(&stored, &login) => {
                Ok(Login { account: enabled(Arc::clone(&stored.account))?, ..login })
            }
            _ => Err(LoginError::at_once(refusal(login.by))),
        }
    }
}

/// The failure of a credential that the account has no longer, as if it had never been right.
fn refusal(by: By) -> LoginFailure {
    match by {
        By::Password | By::AppPassword(_) => LoginFailure::Credentials,
        By::Certificate(_) | By::ListedCertificate(_) => LoginFailure::Certificate,
        By::Token => LoginFailure::Token(NO_ACCOUNT),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::testing::{Ending, add, directory, other_process};
    use crate::{AppPasswordId, Client, NewAppPassword, Service};

    const ANA: &str = "ana@example.org";

    fn phone() -> NewAppPassword {
        NewAppPassword { label: "phone".into(), services: Vec::new(), expires: None }
    }

    /// The reasons for which logins by these credentials are refused; "" for one that succeeds.
    async fn reasons<const N: usize>(
        directory: &Directory,
        proven: &Login,
        by: [By; N],
    ) -> [&'static str; N] {
        let mut reasons = [""; N];
        for (reason, by) in reasons.iter_mut().zip(by) {
            let proven = Proven(Login { by, ..proven.clone() });
            if let Err(error) = directory.confirm(Ok(proven)).await {
                *reason = error.failure.reason();
            }
        }
        reasons
    }

    #[tokio::test]
    async fn each_credential_must_still_be_valid_at_the_end_of_a_login() {
        let (records, directory) = directory();
        let account = Arc::new(add(&directory, ANA, "pencil").await);
        let proven = Login::new(account, By::Password);
        let (listed, named) = ([1; 32], [2; 32]);
        let (made, _) = directory.app_passwords().add(ANA, phone()).await.unwrap();
        let by = [By::Password, By::AppPassword(made.id), By::Certificate(named), By::Token];
        assert_eq!(reasons(&directory, &proven, by).await, [""; 4]);
        let other = other_process(&records);
        other.certificates().add(ANA, listed).await.unwrap();
        assert_eq!(reasons(&directory, &proven, by).await, ["", "", "certificate", ""]);
        assert_eq!(reasons(&directory, &proven, [By::ListedCertificate(listed)]).await, [""]);
        other.certificates().remove(ANA, listed).await.unwrap();
        assert_eq!(reasons(&directory, &proven, [By::ListedCertificate(listed)]).await, ["certificate"]);
        let never = By::AppPassword(AppPasswordId(made.id.0 ^ 1));
        assert_eq!(reasons(&directory, &proven, [never]).await, ["credentials"]);
        Ending::NewPassword.of(&other, ANA).await;
        assert_eq!(reasons(&directory, &proven, by).await, ["credentials", "", "", ""]);
        // A client with an old password does not learn that the account is disabled.
        Ending::Disable.of(&other, ANA).await;
        assert_eq!(
            reasons(&directory, &proven, by).await,
            ["credentials", "disabled", "disabled", "disabled"]
        );
        Ending::Remove.of(&other, ANA).await;
        let none = ["credentials", "credentials", "certificate", "token"];
        assert_eq!(reasons(&directory, &proven, by).await, none);
        // Another account of that name.
        add(&other, ANA, "pencil").await;
        assert_eq!(reasons(&directory, &proven, by).await, none);
    }

    #[tokio::test]
    async fn an_app_password_that_is_removed_during_its_login_lets_nobody_in() {
        let (records, directory) = directory();
        add(&directory, ANA, "pencil").await;
        let (_, text) = directory.app_passwords().add(ANA, phone()).await.unwrap();
        let other = other_process(&records);
        // Its use is noted once it is known to be right.
        records.before("used/", async move {
            other.app_passwords().remove(ANA, "phone").await.unwrap();
        });
        let client = Client { address: Ipv4Addr::LOCALHOST.into(), service: Service::Imap };
        let refused = directory.login(ANA, &text, client).await.unwrap_err();
        assert_eq!(refused.failure.reason(), "credentials");
    }
}
