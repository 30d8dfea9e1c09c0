//! Linear least squares of relative errors.

/// The regressors of a run, and its measured value.
pub(super) type Row<const COLUMNS: usize> = ([f64; COLUMNS], f64);

/// The columns that are not 0 in all rows.
pub(super) fn varied<const COLUMNS: usize>(rows: &[Row<COLUMNS>]) -> Vec<usize> {
    (0..COLUMNS).filter(|index| rows.iter().any(|(x, _)| x[*index].abs() > 1e-12)).collect()
}

/// The sum of products, as far as both go.
pub(super) fn dot(x: &[f64], effects: &[f64]) -> f64 {
    x.iter().zip(effects).map(|(x, effect)| x * effect).sum()
}

/// Effects with the least sum of squared relative errors; none if the runs do not determine them. Errors are relative
/// to the prediction: relative to the measurement, runs that were fast by chance would count more.
pub(super) fn least_squares<const COLUMNS: usize>(
    rows: &[Row<COLUMNS>],
    drawn: &[usize],
    varied: &[usize],
) -> Option<[f64; COLUMNS]> {
    const PASSES: usize = 4;
    let mut scales: Vec<f64> = rows.iter().map(|(_, y)| *y).collect();
    let mut effects = [0.0; COLUMNS];
    for _ in 0..PASSES {
        effects = weighted_least_squares(rows, &scales, drawn, varied)?;
        for (scale, (x, y)) in scales.iter_mut().zip(rows) {
            // A prediction near zero would make a run outweigh all others.
            *scale = dot(x, &effects).max(0.3 * y);
        }
    }
    Some(effects)
}

/// As [`least_squares`]; effects from the column `first` on that would be negative are removed from `used`, one after the other.
pub(super) fn least_squares_without_negative<const COLUMNS: usize>(
    rows: &[Row<COLUMNS>],
    drawn: &[usize],
    used: &mut Vec<usize>,
    first: usize,
) -> Option<[f64; COLUMNS]> {
    loop {
        let effects = least_squares(rows, drawn, used)?;
        let is_negative = |index: &usize| *index >= first && effects[*index] < 0.0;
        let Some(negative) = used.iter().position(is_negative) else { return Some(effects) };
        used.remove(negative);
    }
}

/// Effects with the least sum of squared errors over `scales`.
fn weighted_least_squares<const COLUMNS: usize>(
    rows: &[Row<COLUMNS>],
    scales: &[f64],
    drawn: &[usize],
    varied: &[usize],
) -> Option<[f64; COLUMNS]> {
    let count = varied.len();
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for index in drawn {
        let (x, y) = &rows[*index];
        let weight = 1.0 / (scales[*index] * scales[*index]);
        for (i, first) in varied.iter().enumerate() {
            for (j, second) in varied.iter().enumerate() {
                matrix[i][j] += x[*first] * x[*second] * weight;
            }
            matrix[i][count] += x[*first] * y * weight;
        }
    }
    let scale: Vec<f64> = (0..count).map(|i| matrix[i][i]).collect();
    for pivot in 0..count {
        let best = (pivot..count)
            .max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        matrix.swap(pivot, best);
        if matrix[pivot][pivot].abs() <= 1e-9 * scale[pivot].abs() || scale[pivot] == 0.0 {
            return None;
        }
        for row in 0..count {
            if row == pivot {
                continue;
            }
            let factor = matrix[row][pivot] / matrix[pivot][pivot];
            let subtracted = matrix[pivot].clone();
            for (cell, own) in matrix[row].iter_mut().zip(&subtracted).skip(pivot) {
                *cell -= factor * own;
            }
        }
    }
    let mut effects = [0.0; COLUMNS];
    for (row, index) in varied.iter().enumerate() {
        effects[*index] = matrix[row][count] / matrix[row][row];
    }
    Some(effects)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn negative_effects_are_left_out_from_a_column_on() {
        let row = |number: usize| {
            let x = [1.0, (number % 3) as f64, (number % 5) as f64];
            (x, 100.0 - 10.0 * x[1] - 5.0 * x[2])
        };
        let rows: Vec<Row<3>> = (0..30).map(row).collect();
        let all: Vec<usize> = (0..rows.len()).collect();
        let mut used = varied(&rows);
        let effects = least_squares_without_negative(&rows, &all, &mut used, 2).unwrap();
        assert_eq!((&used[..], effects[2]), (&[0, 1][..], 0.0));
        assert!(effects[1] < -5.0, "{effects:?}");
        let effects = least_squares_without_negative(&rows, &all, &mut used, 0).unwrap();
        assert_eq!((&used[..], effects[1]), (&[0][..], 0.0));
    }
}
