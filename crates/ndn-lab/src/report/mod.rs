//! Reports of experiments: HTML, Markdown, figures and raw data.

mod document;
mod figures;
mod table;

use std::time::{Duration, SystemTime};

use crate::analysis::{Analysis, AnalysisError, analyse, digits};
use crate::execute::CLOCK_ERROR;
use crate::experiment::{Experiment, Response};
use crate::figure;
use crate::results::{Origin, Results, ResultsError, Session, StoredRun, observations};
use document::Block;
use table::RunTable;

/// Cells whose nodes are drawn over time.
const TIME_LINES_MAX: usize = 16;
/// Rows of the table of cells.
const CELLS_MAX: usize = 200;

/// All that a report shows.
#[derive(Debug)]
pub struct Study {
    /// The experiment.
    pub experiment: Experiment,
    /// Its file and directory.
    pub origin: Origin,
    /// Stored runs, in their order.
    pub runs: Vec<StoredRun>,
    /// Programs and machines.
    pub sessions: Vec<Session>,
    /// Versions of the forwarders of other projects.
    pub versions: Vec<String>,
}

/// A report: one HTML page, and Markdown with figures beside it.
#[derive(Debug)]
pub struct Report {
    /// The page; it needs no other file.
    pub html: String,
    /// The same in Markdown, with links to `figures/`.
    pub markdown: String,
    /// Names and contents of the figures, SVG.
    pub figures: Vec<(String, String)>,
    /// All runs as comma-separated values.
    pub csv: String,
    /// The same as a Parquet file.
    pub parquet: Vec<u8>,
}

impl Study {
    /// Reads all results.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(results: &Results) -> Result<Self, ResultsError> {
        Ok(Self {
            experiment: results.experiment()?,
            origin: results.origin()?,
            runs: results.runs()?,
            sessions: results.sessions()?,
            versions: results.versions()?,
        })
    }

    /// Analyses a response.
    ///
    /// # Errors
    /// Cells without responses, or too few responses.
    pub fn analyse(&self, response: &Response) -> Result<Analysis, AnalysisError> {
        let observed = observations(&self.runs, &response.name);
        analyse(&self.experiment.design, &observed, &response.name, &response.unit)
    }

    /// Writes the report. `file` is the name of the results, for the command to repeat the experiment.
    ///
    /// # Errors
    /// A figure cannot be drawn.
    pub fn report(&self, file: &str) -> Result<Report, String> {
        let experiment = &self.experiment;
        let mut blocks = vec![Block::Heading(1, experiment.name.clone())];
        if !experiment.question.is_empty() {
            blocks.push(Block::Paragraph(experiment.question.clone()));
        }
        blocks.push(Block::List(self.summary()));
        for response in &experiment.responses {
            self.add_response(response, &mut blocks)?;
        }
        blocks.extend(self.cells());
        self.add_time_lines(&mut blocks)?;
        blocks.extend(self.failures());
        blocks.extend(self.circumstances(file));
        let mut figures = Vec::new();
        for block in &blocks {
            if let Block::Figure { file, svg, .. } = block {
                figures.push((file.clone(), svg.clone()));
            }
        }
        let table = RunTable::new(experiment, &self.runs);
        Ok(Report {
            figures,
            html: document::html(&experiment.name, &blocks),
            markdown: document::markdown(&blocks),
            csv: table.csv(),
            parquet: table.parquet().map_err(|error| format!("runs.parquet: {error}"))?,
        })
    }

    /// Factors, numbers of runs, and confounding.
    fn summary(&self) -> Vec<String> {
        let experiment = &self.experiment;
        let cells = experiment.design.cells().len();
        let failed = self.runs.iter().filter(|run| run.error.is_some()).count();
        let factors: Vec<String> = experiment
            .design
            .factors()
            .iter()
            .map(|factor| format!("{} ({})", factor.name, factor.levels.join(", ")))
            .collect();
        let mut lines = vec![
            format!("Factors: {}.", factors.join("; ")),
            format!(
                "{} of {} runs: {cells} cells, {} replications, {}; {failed} failed.",
                self.runs.len(),
                cells * experiment.replications,
                experiment.replications,
                match experiment.is_blocked {
                    true => "in random order within blocks in time",
                    false => "in random order",
                },
            ),
        ];
        lines.extend(experiment.design.confounding());
        lines
    }

    fn add_response(&self, response: &Response, blocks: &mut Vec<Block>) -> Result<(), String> {
        let label = |name: &str, unit: &str| match unit {
            "" => name.to_owned(),
            unit => format!("{name} ({unit})"),
        };
        blocks.push(Block::Heading(2, label(&response.name, &response.unit)));
        let analysis = match self.analyse(response) {
            Ok(analysis) => analysis,
            Err(error) => {
                blocks.push(Block::Paragraph(format!("There is no analysis: {error}.")));
                return Ok(());
            }
        };
        blocks.push(Block::List(analysis.findings.clone()));
        let observed = observations(&self.runs, &response.name);
        let design = &self.experiment.design;
        let label = label(&response.name, &response.unit);
        let scaled = analysis.transform.name(&response.name);
        let names = (label.as_str(), scaled.as_str());
        for figure in figures::figures(design, &observed, &analysis, names) {
            let columns = figure.panels.len().min(3);
            let svg = figure::draw("", &figure.panels, columns)?;
            let file = format!("{}-{}.svg", response.name, figure.file);
            blocks.push(Block::Figure { file, caption: figure.caption, svg });
        }
        blocks.extend(tables(design, &analysis));
        Ok(())
    }

    /// Means of all responses by cell.
    fn cells(&self) -> Vec<Block> {
        let experiment = &self.experiment;
        let design = &experiment.design;
        let mut head: Vec<String> =
            design.factors().iter().map(|factor| factor.name.clone()).collect();
        head.push("runs".to_owned());
        for response in &experiment.responses {
            head.push(format!("mean {}", response.name));
            head.push("standard deviation".to_owned());
        }
        let mut rows = vec![head];
        for (number, cell) in design.cells().iter().enumerate().take(CELLS_MAX) {
            let runs: Vec<&StoredRun> =
                self.runs.iter().filter(|run| run.cell == number && run.error.is_none()).collect();
            let levels = design.factors().iter().zip(cell);
            let mut row: Vec<String> =
                levels.map(|(factor, level)| factor.levels[*level].clone()).collect();
            row.push(runs.len().to_string());
            for response in &experiment.responses {
                let values: Vec<f64> = runs
                    .iter()
                    .filter_map(|run| run.responses.get(&response.name).copied())
                    .collect();
                let n = values.len() as f64;
                let mean = values.iter().sum::<f64>() / n;
                let squares: f64 = values.iter().map(|one| (one - mean) * (one - mean)).sum();
                let deviation = libm::sqrt(squares / (n - 1.0));
                let shown = |value: f64| {
                    if value.is_finite() { digits(value) } else { String::new() }
                };
                row.extend([shown(mean), shown(deviation)]);
            }
            rows.push(row);
        }
        let mut blocks = vec![Block::Heading(2, "Cells".to_owned()), Block::Table(rows)];
        if design.cells().len() > CELLS_MAX {
            let more = design.cells().len() - CELLS_MAX;
            blocks.push(Block::Paragraph(format!("{more} further cells are in runs.csv.")));
        }
        blocks
    }

    /// Nodes over time in the first run of each cell that has samples.
    fn add_time_lines(&self, blocks: &mut Vec<Block>) -> Result<(), String> {
        let design = &self.experiment.design;
        let mut is_first = true;
        for cell in 0..design.cells().len().min(TIME_LINES_MAX) {
            let mut runs = self.runs.iter().filter(|run| run.cell == cell && run.error.is_none());
            let panels = runs.next().map(|run| figures::time_lines(&run.responses));
            let Some(panels) = panels.filter(|panels| !panels.is_empty()) else { continue };
            if std::mem::take(&mut is_first) {
                blocks.push(Block::Heading(2, "Nodes over time".to_owned()));
            }
            let file = format!("time-lines-{}.svg", cell + 1);
            let svg = figure::draw("", &panels, panels.len())?;
            let caption = format!(
                "The busiest nodes in the first run of {}: packets on links, and processors in use",
                design.describe(cell)
            );
            blocks.push(Block::Figure { file, caption, svg });
        }
        Ok(())
    }

    fn failures(&self) -> Vec<Block> {
        let failed = || self.runs.iter().filter(|run| run.error.is_some());
        if failed().next().is_none() {
            return Vec::new();
        }
        let head = ["cell", "replication", "reason"].map(str::to_owned).to_vec();
        let row = |run: &StoredRun| {
            let reason = run.error.clone().unwrap_or_default();
            vec![
                self.experiment.design.describe(run.cell),
                (run.replication + 1).to_string(),
                reason,
            ]
        };
        let rows = std::iter::once(head).chain(failed().map(row)).collect();
        vec![
            Block::Heading(2, "Failed runs".to_owned()),
            Block::Table(rows),
            Block::Paragraph(
                "What they printed is in the results: namewire lab list --failed.".to_owned(),
            ),
        ]
    }

    /// Programs, machines, the command to repeat the experiment, and its file.
    fn circumstances(&self, file: &str) -> Vec<Block> {
        let head = ["started", "program", "machine", "runs"].map(str::to_owned).to_vec();
        let row = |(number, session): (usize, &Session)| {
            let runs = self.runs.iter().filter(|run| run.session == number).count();
            let start = SystemTime::UNIX_EPOCH + Duration::from_millis(session.start_ms);
            let start = httpdate::fmt_http_date(start);
            vec![start, session.program.clone(), session.machine.clone(), runs.to_string()]
        };
        let rows = std::iter::once(head).chain(self.sessions.iter().enumerate().map(row)).collect();
        let name = &self.experiment.name;
        let versions = match self.versions[..] {
            [] => Vec::new(),
            _ => vec![Block::Paragraph(format!("Other forwarders: {}.", self.versions.join("; ")))],
        };
        let head = vec![Block::Heading(2, "Circumstances".to_owned()), Block::Table(rows)];
        let rest = vec![
            Block::Paragraph("To repeat the experiment, save the file below and run:".to_owned()),
            Block::Code(format!(
                "namewire lab run {name}.toml --results {name}.sqlite\nnamewire lab report {name}.sqlite"
            )),
            Block::Paragraph(format!(
                "The raw data is in runs.csv, runs.parquet and {file}. The experiment file:"
            )),
            Block::Code(self.origin.text.clone()),
        ];
        [head, versions, self.clocks(), rest].concat()
    }

    /// The error of times between hosts.
    fn clocks(&self) -> Vec<Block> {
        let errors_ms = self.runs.iter().filter_map(|run| run.responses.get(CLOCK_ERROR).copied());
        let Some(error_ms) = errors_ms.max_by(f64::total_cmp) else { return Vec::new() };
        vec![Block::Paragraph(format!(
            "The clocks of the hosts were compared before and after each run. Times between hosts (distribution_ms) are \
             uncertain by up to {} ms; times of one consumer (delay_ms) are of one clock.",
            digits(error_ms)
        ))]
    }
}

/// Tables of effects, of variance, and of pairs of levels.
fn tables(design: &crate::design::Design, analysis: &Analysis) -> Vec<Block> {
    let mut blocks = Vec::new();
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let yes = |matters: bool| if matters { "yes" } else { "no" }.to_owned();
    if let Some(effects) = &analysis.effects {
        let head =
            ["effect", "q", "interval ±", "sum of squares", "variation", "p (Holm)", "matters"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(effects.effects.iter().map(|one| {
            vec![
                one.name.clone(),
                digits(analysis.q(one)),
                if one.half_width.is_finite() { digits(one.half_width) } else { String::new() },
                digits(one.squares),
                percent(one.share),
                one.p_corrected.map_or_else(String::new, |p| format!("{p:.2e}")),
                yes(one.matters),
            ]
        }));
        if let Some(error) = &effects.error {
            let mut row =
                vec!["error".to_owned(), String::new(), String::new(), digits(error.squares)];
            row.extend([percent(error.squares / effects.total), String::new(), String::new()]);
            rows.push(row);
        }
        blocks.push(Block::Table(rows));
    }
    if let Some(variance) = &analysis.variance {
        let head = ["term", "sum of squares", "freedom", "F", "p", "variation", "matters"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(variance.terms.iter().map(|one| {
            vec![
                variance.name(one),
                digits(one.squares),
                one.freedom.to_string(),
                digits(one.f),
                format!("{:.2e}", one.p),
                percent(one.share),
                yes(one.matters),
            ]
        }));
        let (squares, freedom) = variance.residual;
        let mut row = vec!["residual".to_owned(), digits(squares), freedom.to_string()];
        row.extend([
            String::new(),
            String::new(),
            percent(squares / variance.total),
            String::new(),
        ]);
        rows.push(row);
        blocks.push(Block::Table(rows));
    }
    for (factor, pairs) in &analysis.pairs {
        let factor = &design.factors()[*factor];
        let head = [factor.name.as_str(), "difference", "interval ±", "p (Tukey)"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(pairs.iter().map(|pair| {
            vec![
                format!("{} − {}", factor.levels[pair.levels.1], factor.levels[pair.levels.0]),
                digits(pair.difference),
                digits(pair.half_width),
                format!("{:.2e}", pair.p),
            ]
        }));
        blocks.push(Block::Table(rows));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::SerializedFileReader;
    use parquet::record::Field;

    use super::*;

    const TEXT: &str = "name = \"x\"\nquestion = \"Why?\"\n[factors]\na = [1, 2]\nb = [\"u,v\", \"w\"]\n[responses]\n\
                        y = \"s\"\n[design]\nreplications = 3\n[executor]\nkind = \"command\"\ncommand = [\"true\"]\n";

    fn study() -> Study {
        let experiment = Experiment::parse(TEXT).unwrap();
        let plan = experiment.plan().unwrap();
        let run = |(number, one): (usize, &crate::experiment::SeededRun)| {
            let cell = &experiment.design.cells()[one.run.cell];
            let y = 10.0 + 5.0 * cell[0] as f64 + 0.1 * (number % 5) as f64;
            let is_failed = number == 3;
            StoredRun {
                cell: one.run.cell,
                replication: one.run.replication,
                block: one.run.block,
                seed: one.seed,
                session: 0,
                start_ms: 1_700_000_000_000,
                duration_ms: 5,
                responses: (!is_failed).then(|| ("y".to_owned(), y)).into_iter().collect(),
                error: is_failed.then(|| "exit status: 1".to_owned()),
                log: None,
            }
        };
        let runs = plan.iter().enumerate().map(run).collect();
        let origin = Origin { text: TEXT.to_owned(), directory: "/d".into() };
        let session = Session {
            start_ms: 1_700_000_000_000,
            program: "namewire 1".to_owned(),
            machine: "2 x c".to_owned(),
        };
        let versions = vec!["ndnd: ndnd version 1.2".to_owned()];
        Study { experiment, origin, runs, sessions: vec![session], versions }
    }

    #[test]
    fn report_has_findings_figures_failures_and_the_way_to_repeat() {
        let report = study().report("x.sqlite").unwrap();
        for part in [
            "12 of 12 runs: 4 cells, 3 replications",
            "1 failed",
            "2 instead of 1 raises the mean of y",
            "exit status: 1",
            "Tue, 14 Nov 2023 22:13:20 GMT",
            "Other forwarders: ndnd: ndnd version 1.2.",
            "namewire lab run x.toml",
            "question = &quot;Why?&quot;",
            "<svg",
        ] {
            assert!(report.html.contains(part), "{part}: {}", report.html);
        }
        assert!(
            report.markdown.contains("![Means of y \\(s) by level".replace("\\(", "(").as_str())
        );
        let names: Vec<&str> = report.figures.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            names.contains(&"y-main-effects.svg") && names.contains(&"y-variation.svg"),
            "{names:?}"
        );
        let lines: Vec<&str> = report.csv.lines().collect();
        assert_eq!(lines.len(), 13);
        assert_eq!(lines[0], "a,b,replication,block,seed,run_start_ms,run_duration_ms,y,error");
        assert!(lines.iter().any(|line| line.contains("\"u,v\"")), "{lines:?}");
        assert!(lines[4].ends_with(",,exit status: 1"), "{}", lines[4]);
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &report.parquet).unwrap();
        let rows = SerializedFileReader::new(file).unwrap().into_iter().map(Result::unwrap);
        let field = |field: &Field| {
            if let Field::Null = field {
                String::new()
            } else if let Field::Str(text) = field {
                table::quoted(text)
            } else if let Field::Double(number) = field {
                number.to_string()
            } else {
                field.to_string()
            }
        };
        let rows = rows.map(|row| {
            let fields = row.get_column_iter().map(|(_, value)| field(value));
            fields.collect::<Vec<_>>().join(",")
        });
        assert_eq!(rows.collect::<Vec<_>>(), lines[1..]);
    }

    /// Networks have a response `start_ms`, and a program may have one of any name.
    #[test]
    fn columns_of_the_raw_data_have_different_names() {
        let text = TEXT.replace("[responses]", "[responses]\nseed = \"\"\nerror = \"\"");
        let report = Study { experiment: Experiment::parse(&text).unwrap(), ..study() };
        let report = report.report("x.sqlite").unwrap();
        let head = report.csv.lines().next().unwrap();
        let names: std::collections::BTreeSet<&str> = head.split(',').collect();
        assert_eq!(names.len(), head.split(',').count(), "{head}");
        assert!(names.contains("seed_") && names.contains("error_"), "{head}");
        assert!(!report.parquet.is_empty());
    }

    #[test]
    fn cells_without_a_response_are_named_in_place_of_the_analysis() {
        let mut study = study();
        study.runs.retain(|run| run.cell != 0);
        let report = study.report("x.sqlite").unwrap();
        assert!(report.html.contains("There is no analysis: the cell a=1 b=u,v has no response"));
    }
}
