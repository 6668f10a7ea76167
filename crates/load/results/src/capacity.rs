//! The largest number of users that a server can serve: seed 001's arithmetic, every constant a
//! parameter.

use crate::fit::{Fits, Polynomial};

/// Messages a heavy user receives per second: 80 in a working day of 8 hours, as the article rounds
/// it.
pub const HEAVY_USER_MESSAGES_PER_SECOND: f64 = 0.00278;
/// The ratio of the load at the busiest time to the average load.
pub const PEAK_LOAD_FACTOR: f64 = 2.0;
/// Share of the processors that planning allows.
pub const CPU_LIMIT_PERCENT: f64 = 75.0;

/// Users per day that a fetch rate serves: each message received is fetched once.
pub fn daily_users(fetch_rate_per_s: f64, messages_per_user_per_s: f64, peak_factor: f64) -> f64 {
    fetch_rate_per_s / messages_per_user_per_s / peak_factor
}

/// The fetch rate of these users, from measured (users, fetches per second) points: by the line
/// through them. If only one number of users was measured, the rate grows with the users. `None`
/// without points, or if the line falls below zero.
pub fn fetch_rate_at(points: &[(f64, f64)], users: f64) -> Option<f64> {
    let rate = match Polynomial::fit(points, 1) {
        Some(line) => line.at(users),
        None => {
            let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
            sum(|p| p.1) / sum(|p| p.0) * users
        }
    };
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// A projection of CPU against users to a limit.
#[derive(Clone, Debug)]
pub struct Projection {
    /// The two fits of CPU percent against users.
    pub fits: Fits,
    /// Users at the limit by [`Projection::fit`]; `None` if neither fit gets there.
    pub users: Option<f64>,
    /// The number of users by the other fit, for comparison.
    pub users_by_other: Option<f64>,
    /// The parabola has the smaller residual error, but stays below the limit: the line was
    /// projected in its place.
    pub by_line_instead: bool,
    /// Most users measured.
    pub measured_max: f64,
    /// `users ÷ measured_max`: above 1 is extrapolation.
    pub extrapolation: Option<f64>,
}

impl Projection {
    /// The fit that `users` is read from: the chosen one, unless it never reaches the limit and the
    /// line does.
    pub fn fit(&self) -> &Polynomial {
        if self.by_line_instead { &self.fits.linear } else { self.fits.chosen() }
    }
}

/// Projects (users, CPU percent) points to a CPU limit; `None` with fewer than two distinct points.
///
/// A parabola that bends down has a summit. A summit below the limit would mean that no number of
/// users is too many, and no server is like that. The bend comes from scatter, or from the fixed
/// cost that few users share. So the line is projected.
pub fn project(points: &[(f64, f64)], limit_percent: f64) -> Option<Projection> {
    let fits = Fits::of(points)?;
    let measured_max = points.iter().map(|p| p.0).fold(0.0, f64::max);
    let by_chosen = fits.chosen().reaches(limit_percent);
    let by_line = fits.linear.reaches(limit_percent);
    let curved = fits.chosen().degree() == 2;
    let by_line_instead = curved && by_chosen.is_none() && by_line.is_some();
    let by_quadratic = fits.quadratic.as_ref().and_then(|fit| fit.reaches(limit_percent));
    let users = if by_line_instead { by_line } else { by_chosen };
    Some(Projection {
        users,
        users_by_other: if curved && !by_line_instead { by_line } else { by_quadratic },
        by_line_instead,
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
    fn the_fetch_rate_is_that_of_the_projected_users() {
        // Each user fetches 0.5 messages a second: 700 users fetch 350, and not the 200 of the most
        // that were measured.
        let proportional: Vec<_> = [100.0, 200.0, 300.0, 400.0].map(|u| (u, 0.5 * u)).to_vec();
        assert!((fetch_rate_at(&proportional, 700.0).unwrap() - 350.0).abs() < 1e-6);
        assert!((fetch_rate_at(&proportional[3..], 700.0).unwrap() - 350.0).abs() < 1e-6);
        // A server that slows down: the result is on the line through its points.
        let slower = [(100.0, 60.0), (200.0, 100.0), (300.0, 140.0)];
        assert!((fetch_rate_at(&slower, 500.0).unwrap() - 220.0).abs() < 1e-6);
        assert_eq!(fetch_rate_at(&[(100.0, 50.0), (200.0, 10.0)], 400.0), None);
        assert_eq!(fetch_rate_at(&[], 400.0), None);
    }

    #[test]
    fn a_straight_server_is_projected_straight() {
        let points: Vec<_> = [100.0, 200.0, 300.0, 400.0].map(|u| (u, 5.0 + 0.1 * u)).to_vec();
        let projection = project(&points, CPU_LIMIT_PERCENT).unwrap();
        assert!((projection.users.unwrap() - 700.0).abs() < 1e-6);
        assert!((projection.extrapolation.unwrap() - 1.75).abs() < 1e-9);
        assert!(!projection.by_line_instead);
    }

    #[test]
    fn a_summit_below_the_limit_is_not_projected() {
        // y = 0.2 x − 0.0002 x²: its summit is 50 at x = 500. The line through these is y = 10 +
        // 0.1 x.
        let points: Vec<_> = [100.0, 200.0, 300.0, 400.0].map(|u| (u, 0.2 * u - 2e-4 * u * u)).to_vec();
        let projection = project(&points, CPU_LIMIT_PERCENT).unwrap();
        assert_eq!(projection.fits.chosen().degree(), 2);
        assert!(projection.by_line_instead);
        assert_eq!(projection.fit().degree(), 1);
        assert!((projection.users.unwrap() - 650.0).abs() < 1e-6, "{projection:?}");
        assert!((projection.extrapolation.unwrap() - 1.625).abs() < 1e-9);
        assert_eq!(projection.users_by_other, None);
        // A limit that the parabola reaches, 40 at 500 − √50,000, does not use the line.
        let below = project(&points, 40.0).unwrap();
        assert!(!below.by_line_instead);
        assert_eq!(below.fit().degree(), 2);
        assert!((below.users.unwrap() - (500.0 - 50_000.0_f64.sqrt())).abs() < 1e-6);
        assert!((below.users_by_other.unwrap() - 300.0).abs() < 1e-6);
    }

    #[test]
    fn falling_cpu_reaches_nothing() {
        let points: Vec<_> = [100.0, 200.0, 300.0, 400.0].map(|u| (u, 30.0 - 1e-4 * u * u)).to_vec();
        let projection = project(&points, CPU_LIMIT_PERCENT).unwrap();
        assert_eq!(projection.users, None);
        assert!(!projection.by_line_instead);
    }
}
