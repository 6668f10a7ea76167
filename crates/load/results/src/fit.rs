//! Least squares: a straight line or a parabola through measured points, with its residuals.

/// A fitted polynomial.
#[derive(Clone, Debug, PartialEq)]
pub struct Polynomial {
    coefficients: Vec<f64>,
    /// The distance of each point above the curve, in the order given.
    pub residuals: Vec<f64>,
    /// √(Σ residual² ÷ (points − coefficients)); infinite if there are as few points as
    /// coefficients.
    pub residual_error: f64,
    /// Share of the variance explained.
    pub r_squared: f64,
}

impl Polynomial {
    /// Fits `degree` (at most 3); `None` with fewer points than coefficients or when x does not
    /// vary enough.
    pub fn fit(points: &[(f64, f64)], degree: usize) -> Option<Self> {
        let terms = degree + 1;
        if points.len() < terms || degree > 3 {
            return None;
        }
        // Scaled to [-1, 1]: the normal equations of raw powers lose all their digits at x =
        // 500,000.
        let (low, high) =
            points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), p| (l.min(p.0), h.max(p.0)));
        let (centre, half) = ((low + high) / 2.0, (high - low) / 2.0);
        let scale = |x: f64| if half > 0.0 { (x - centre) / half } else { 0.0 };
        let mut matrix = vec![vec![0.0; terms + 1]; terms];
        for &(x, y) in points {
            let powers: Vec<f64> = (0..terms).map(|i| scale(x).powi(i as i32)).collect();
            for (row, a) in matrix.iter_mut().zip(&powers) {
                for (cell, b) in row.iter_mut().zip(powers.iter().chain([&y])) {
                    *cell += a * b;
                }
            }
        }
        let scaled = solve(matrix)?;
        let coefficients = unscale(&scaled, centre, if half > 0.0 { half } else { 1.0 });
        let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
        let value = |x: f64| scaled.iter().rev().fold(0.0, |sum, c| sum * scale(x) + c);
        let residuals: Vec<f64> = points.iter().map(|&(x, y)| y - value(x)).collect();
        let left: f64 = residuals.iter().map(|r| r * r).sum();
        let all: f64 = points.iter().map(|p| (p.1 - mean).powi(2)).sum();
        let freedom = points.len() - terms;
        Some(Self {
            coefficients,
            residuals,
            residual_error: if freedom == 0 { f64::INFINITY } else { (left / freedom as f64).sqrt() },
            r_squared: if all > 0.0 { 1.0 - left / all } else { 1.0 },
        })
    }

    /// The factor of x to this power.
    pub(crate) fn coefficient(&self, power: usize) -> f64 {
        self.coefficients.get(power).copied().unwrap_or(0.0)
    }

    /// The degree.
    pub(crate) fn degree(&self) -> usize {
        self.coefficients.len().saturating_sub(1)
    }

    /// The curve's value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
    }

    /// The smallest x above zero where the curve reaches `y`, for curves of degree 1 or 2 that do.
    pub fn reaches(&self, y: f64) -> Option<f64> {
        let (c, b, a) = (self.coefficient(0) - y, self.coefficient(1), self.coefficient(2));
        let roots = if a.abs() < 1e-300 {
            [-c / b, f64::NAN]
        } else {
            let root = (b * b - 4.0 * a * c).sqrt();
            [(-b - root) / (2.0 * a), (-b + root) / (2.0 * a)]
        };
        roots.into_iter().filter(|x| x.is_finite() && *x > 0.0).reduce(f64::min)
    }

    /// The formula for people: `y = 1.2 + 0.34 x`.
    pub fn formula(&self) -> String {
        let terms: Vec<String> = self
            .coefficients
            .iter()
            .enumerate()
            .map(|(power, c)| match power {
                0 => format!("{c:.4}"),
                1 => format!("{c:.6} x"),
                _ => format!("{c:.4e} x^{power}"),
            })
            .collect();
        format!("y = {}", terms.join(" + ").replace("+ -", "− "))
    }
}

/// Coefficients in x from those in (x − centre) ÷ half.
fn unscale(scaled: &[f64], centre: f64, half: f64) -> Vec<f64> {
    let mut out = vec![0.0; scaled.len()];
    let mut power = vec![1.0]; // ((x − centre) / half)^i, as coefficients of x
    for &c in scaled {
        for (o, p) in out.iter_mut().zip(&power) {
            *o += c * p;
        }
        let mut next = vec![0.0; power.len() + 1];
        for (i, p) in power.iter().enumerate() {
            next[i] -= p * centre / half;
            next[i + 1] += p / half;
        }
        power = next;
    }
    out
}

/// Gauss with pivoting on an augmented matrix.
fn solve(mut m: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = m.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|&a, &b| m[a][column].abs().total_cmp(&m[b][column].abs()))?;
        m.swap(column, pivot);
        if m[column][column].abs() < 1e-12 {
            return None;
        }
        let top = m[column].clone();
        for row in m.iter_mut().skip(column + 1) {
            let factor = row[column] / top[column];
            row.iter_mut().zip(&top).for_each(|(cell, t)| *cell -= factor * t);
        }
    }
    let mut x = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|k| m[row][k] * x[k]).sum();
        x[row] = (m[row][n] - known) / m[row][row];
    }
    Some(x)
}

/// A line and a parabola through the same points.
#[derive(Clone, Debug)]
pub struct Fits {
    /// Degree 1.
    pub linear: Polynomial,
    /// Degree 2, if there are enough points.
    pub quadratic: Option<Polynomial>,
}

impl Fits {
    /// The two fits; `None` with fewer than two distinct points.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        Some(Self { linear: Polynomial::fit(points, 1)?, quadratic: Polynomial::fit(points, 2) })
    }

    /// The one with the smaller residual error; the line if the errors cannot be compared (fewer
    /// than four points).
    pub fn chosen(&self) -> &Polynomial {
        match &self.quadratic {
            Some(q) if q.residual_error < self.linear.residual_error => q,
            _ => &self.linear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_known_points() {
        // Anscombe's first set: y = 3.0001 + 0.5001 x, R² = 0.6665, residual error 1.2366.
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let points: Vec<_> = x.into_iter().zip(y).collect();
        let line = Polynomial::fit(&points, 1).unwrap();
        assert!((line.coefficient(0) - 3.0001).abs() < 1e-4, "{line:?}");
        assert!((line.coefficient(1) - 0.5001).abs() < 1e-4);
        assert!((line.r_squared - 0.6665).abs() < 1e-4);
        assert!((line.residual_error - 1.2366).abs() < 1e-4);
        assert!((line.residuals.iter().sum::<f64>()).abs() < 1e-9);
    }

    #[test]
    fn a_parabola_is_found_even_far_out() {
        let points: Vec<_> = [100.0, 1e3, 1e4, 1e5, 5e5].map(|x| (x, 2.0 + 3e-3 * x + 4e-9 * x * x)).to_vec();
        let fits = Fits::of(&points).unwrap();
        let curve = fits.chosen();
        assert_eq!(curve.degree(), 2);
        assert!((curve.coefficient(2) / 4e-9 - 1.0).abs() < 1e-6);
        let x = curve.reaches(curve.at(250_000.0)).unwrap();
        assert!((x / 250_000.0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn too_little_to_fit() {
        assert!(Polynomial::fit(&[(1.0, 1.0)], 1).is_none());
        assert!(Polynomial::fit(&[(1.0, 1.0), (1.0, 2.0)], 1).is_none());
        let two = Fits::of(&[(0.0, 1.0), (1.0, 2.0)]).unwrap();
        assert_eq!(two.chosen().degree(), 1);
        assert_eq!(two.linear.reaches(0.5), None);
    }
}
