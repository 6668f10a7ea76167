//! How many users a server can bear: seed 001's arithmetic, every constant a parameter.

use super::fit::{Fits, Polynomial};

/// Messages a heavy user receives per second: 80 in a working day of 8 hours, as the article rounds it.
pub const HEAVY_USER_MESSAGES_PER_SECOND: f64 = 0.00278;
/// How much busier the busiest time is than the average.
pub const PEAK_LOAD_FACTOR: f64 = 2.0;
/// Share of the processors that planning allows.
pub const CPU_LIMIT_PERCENT: f64 = 75.0;

/// Users per day that a fetch rate serves: each message received is fetched once.
pub fn daily_users(fetch_rate_per_s: f64, messages_per_user_per_s: f64, peak_factor: f64) -> f64 {
    fetch_rate_per_s / messages_per_user_per_s / peak_factor
}

/// A projection of CPU against users to a limit.
#[derive(Clone, Debug)]
pub struct Projection {
    /// Both fits of CPU percent against users.
    pub fits: Fits,
    /// Users at the limit by the chosen fit; `None` if the curve never gets there.
    pub users: Option<f64>,
    /// The same by the other fit, for comparison.
    pub users_by_other: Option<f64>,
    /// Most users measured.
    pub measured_max: f64,
    /// `users ÷ measured_max`: above 1 is extrapolation.
    pub extrapolation: Option<f64>,
}

/// Projects (users, CPU percent) points to a CPU limit; `None` with fewer than two distinct points.
pub fn project(points: &[(f64, f64)], limit_percent: f64) -> Option<Projection> {
    let fits = Fits::of(points)?;
    let measured_max = points.iter().map(|p| p.0).fold(0.0, f64::max);
    let other: Option<&Polynomial> =
        if fits.chosen().degree() == 2 { Some(&fits.linear) } else { fits.quadratic.as_ref() };
    let users = fits.chosen().reaches(limit_percent);
    Some(Projection {
        users,
        users_by_other: other.and_then(|fit| fit.reaches(limit_percent)),
        measured_max,
        extrapolation: users.map(|u| u / measured_max),
        fits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_articles_62_000_users() {
        // 62,000 users × 0.00278 messages/s × 2 = 344.72 fetches/s, and back.
        let users = daily_users(344.72, HEAVY_USER_MESSAGES_PER_SECOND, PEAK_LOAD_FACTOR);
        assert!((users - 62_000.0).abs() < 1e-6, "{users}");
        // The constant itself: 80 messages in 8 hours.
        assert!((80.0_f64 / (8.0 * 3600.0) - HEAVY_USER_MESSAGES_PER_SECOND).abs() < 5e-6);
    }

    #[test]
    fn a_straight_server_is_projected_straight() {
        let points: Vec<_> = [100.0, 200.0, 300.0, 400.0].map(|u| (u, 5.0 + 0.1 * u)).to_vec();
        let projection = project(&points, CPU_LIMIT_PERCENT).unwrap();
        assert!((projection.users.unwrap() - 700.0).abs() < 1e-6);
        assert!((projection.extrapolation.unwrap() - 1.75).abs() < 1e-9);
    }
}
