//! Tables of responses that were measured elsewhere, as comma-separated values.

use crate::analysis::Observation;
use crate::design::{Design, Factor, Kind, RUNS_MAX};

/// Responses of a design.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Factors and cells: a full factorial if all combinations occur, else the cells that occur.
    pub design: Design,
    /// Responses: name and values, in the order of the lines.
    pub responses: Vec<(String, Vec<Observation>)>,
}

/// Parses a table. The first line has the names of the columns: those in `responses` are responses, all others factors,
/// whose levels are the texts in them in the order of their first occurrence. A column `block` is the number of a block.
///
/// # Errors
/// Names line and column.
pub fn parse(text: &str, responses: &[String]) -> Result<Table, String> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (_, head) = lines.next().ok_or("the table is empty")?;
    let head: Vec<&str> = head.split(',').map(str::trim).collect();
    if let Some((number, name)) = head
        .iter()
        .enumerate()
        .find(|(number, name)| name.is_empty() || head[..*number].contains(name))
    {
        return Err(format!("column {}: the name '{name}' is empty or occurs twice", number + 1));
    }
    let column = |name: &String| {
        let known = head.join(", ");
        let found = head.iter().position(|other| *other == name.as_str());
        found.ok_or_else(|| format!("no column is called '{name}'; columns: {known}"))
    };
    let measured: Vec<usize> = responses.iter().map(column).collect::<Result<_, _>>()?;
    let block = head.iter().position(|name| *name == "block");
    let is_factor = |column: &usize| !measured.contains(column) && Some(*column) != block;
    let columns: Vec<usize> = (0..head.len()).filter(is_factor).collect();
    let name = |column: &usize| Factor { name: head[*column].to_owned(), levels: Vec::new() };
    let mut factors: Vec<Factor> = columns.iter().map(name).collect();
    let (mut cells, mut values) = (Vec::new(), vec![Vec::new(); measured.len()]);
    let mut rows: Vec<(usize, usize)> = Vec::new();
    for (number, line) in lines {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != head.len() {
            let (found, expected) = (fields.len(), head.len());
            return Err(format!("line {number}: {found} fields; the first line has {expected}"));
        }
        let mut cell = Vec::new();
        for (factor, column) in factors.iter_mut().zip(&columns) {
            let text = fields[*column];
            let known = factor.levels.iter().position(|level| level == text);
            cell.push(known.unwrap_or_else(|| {
                factor.levels.push(text.to_owned());
                factor.levels.len() - 1
            }));
        }
        let index = cells.iter().position(|other| *other == cell).unwrap_or_else(|| {
            cells.push(cell);
            cells.len() - 1
        });
        let number_in = |column: usize| {
            let text = fields[column];
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
            let name = head[column];
            value.ok_or_else(|| format!("line {number}, column {name}: '{text}' is not a number"))
        };
        for (values, column) in values.iter_mut().zip(&measured) {
            values.push(number_in(*column)?);
        }
        let block = block.map_or(Ok(0), |column| {
            let block = fields[column].parse().ok().filter(|block| *block < RUNS_MAX);
            let reason = "is not a whole number of a block";
            block.ok_or_else(|| {
                format!("line {number}, column block: '{}' {reason}", fields[column])
            })
        })?;
        rows.push((index, block));
    }
    let combinations: usize = factors.iter().map(|factor| factor.levels.len()).product();
    let is_whole = cells.len() == combinations;
    let kind = if is_whole { Kind::Factorial } else { Kind::Custom(cells.clone()) };
    let design = Design::new(factors, kind).map_err(|error| error.0)?;
    let place = |cell: &Vec<usize>| design.cells().iter().position(|other| other == cell);
    let places: Vec<usize> = cells.iter().filter_map(place).collect();
    let observe = |values: Vec<f64>| {
        let rows = rows.iter().zip(values);
        rows.map(|((cell, block), value)| Observation { cell: places[*cell], block: *block, value })
            .collect()
    };
    let responses = responses.iter().cloned().zip(values.into_iter().map(observe)).collect();
    Ok(Table { design, responses })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyse;

    fn columns(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn example_of_jain_has_its_effects() {
        // Jain, The Art of Computer Systems Performance Analysis, section 17.4.
        let text = "A,B,C,y\n-,-,-,14\n+,-,-,22\n-,+,-,10\n+,+,-,34\n-,-,+,46\n+,-,+,58\n-,+,+,50\n+,+,+,86\n";
        let table = parse(text, &columns(&["y"])).unwrap();
        let (_, observations) = &table.responses[0];
        let effects = analyse(&table.design, observations, "y", "").unwrap().effects.unwrap();
        assert!((effects.mean - 40.0).abs() < 1e-12);
        let found = |name: &str| effects.effects.iter().find(|one| one.name == name).unwrap().value;
        let expected = [
            ("A", 10.0),
            ("B", 5.0),
            ("C", 20.0),
            ("A × B", 5.0),
            ("A × C", 2.0),
            ("B × C", 3.0),
            ("A × B × C", 1.0),
        ];
        for (name, value) in expected {
            assert!((found(name) - value).abs() < 1e-12, "{name}: {}", found(name));
        }
    }

    #[test]
    fn tables_without_all_combinations_have_the_cells_that_occur() {
        let text = "policy,size,s,block\n lru ,10,1.5,0\n\nlfu,20,2,1\nlru,10,3,1\n";
        let table = parse(text, &columns(&["s"])).unwrap();
        assert_eq!(table.design.cells(), [[0, 0], [1, 1]]);
        let (name, observations) = &table.responses[0];
        assert_eq!(name, "s");
        let of = |one: &Observation| (one.cell, one.block, one.value);
        let found: Vec<_> = observations.iter().map(of).collect();
        assert_eq!(found, [(0, 0, 1.5), (1, 1, 2.0), (0, 1, 3.0)]);
    }

    #[test]
    fn faults_name_line_and_column() {
        for (text, expected) in [
            ("", "the table is empty"),
            ("a,a,y\n", "column 2: the name 'a'"),
            ("a,b\n1,2\n", "no column is called 'y'; columns: a, b"),
            ("a,y\n1,2\n1\n", "line 3: 1 fields; the first line has 2"),
            ("a,y\n1,2\n2,x\n", "line 3, column y: 'x' is not a number"),
            ("a,y,block\n1,2,-1\n", "line 2, column block: '-1' is not a whole number"),
            ("a,y\n1,2\n1,3\n", "factor 'a'"),
        ] {
            let error = parse(text, &columns(&["y"])).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
