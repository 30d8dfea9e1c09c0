//! The raw data of a report: a table with a row for each run, as comma-separated values and as Parquet.

use std::collections::BTreeSet;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::experiment::Experiment;
use crate::results::StoredRun;

/// A table with named columns of the same length.
#[derive(Debug)]
pub(super) struct RunTable {
    columns: Vec<(String, Column)>,
}

/// Values of a column.
#[derive(Debug)]
enum Column {
    /// Texts: levels of factors.
    Texts(Vec<String>),
    Counts(Vec<i64>),
    /// Responses, which failed runs do not have.
    Numbers(Vec<Option<f64>>),
    /// Errors, which only failed runs have.
    Errors(Vec<Option<String>>),
}

impl RunTable {
    pub(super) fn new(experiment: &Experiment, runs: &[StoredRun]) -> Self {
        let design = &experiment.design;
        let mut columns = Vec::new();
        for (number, factor) in design.factors().iter().enumerate() {
            let level = |run: &StoredRun| factor.levels[design.cells()[run.cell][number]].clone();
            columns.push((factor.name.clone(), Column::Texts(runs.iter().map(level).collect())));
        }
        let mut add = |name: &str, count: fn(&StoredRun) -> u64| {
            let counts = runs.iter().map(|run| i64::try_from(count(run)).unwrap_or(i64::MAX));
            columns.push((name.to_owned(), Column::Counts(counts.collect())));
        };
        add("replication", |run| run.replication as u64);
        add("block", |run| run.block as u64);
        add("seed", |run| run.seed.into());
        add("run_start_ms", |run| run.start_ms);
        add("run_duration_ms", |run| run.duration_ms);
        for response in &experiment.responses {
            let values = runs.iter().map(|run| run.responses.get(&response.name).copied());
            columns.push((response.name.clone(), Column::Numbers(values.collect())));
        }
        let errors = runs.iter().map(|run| run.error.clone());
        columns.push(("error".to_owned(), Column::Errors(errors.collect())));
        // A factor or response may have the name of another column.
        let mut names = BTreeSet::new();
        for (name, _) in &mut columns {
            while !names.insert(name.clone()) {
                name.push('_');
            }
        }
        Self { columns }
    }

    /// Lines of comma-separated values (RFC 4180), after one with the names.
    pub(super) fn csv(&self) -> String {
        let rows = self.columns.iter().map(|(_, column)| column.len()).max().unwrap_or(0);
        let head = self.columns.iter().map(|(name, _)| quoted(name));
        let mut text = head.collect::<Vec<_>>().join(",");
        text.push('\n');
        for row in 0..rows {
            let fields = self.columns.iter().map(|(_, column)| column.field(row));
            text.push_str(&fields.collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        text
    }

    /// The same as a Parquet file.
    ///
    /// # Errors
    /// Those of the library.
    pub(super) fn parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let fields = self.columns.iter().map(|(name, column)| column.parquet_type(name));
        let fields = fields.collect::<Result<Vec<TypePtr>, ParquetError>>()?;
        let schema = Type::group_type_builder("runs").with_fields(fields).build()?;
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::default())?;
        let mut group = writer.next_row_group()?;
        for (_, column) in &self.columns {
            column.write(&mut group)?;
        }
        group.close()?;
        writer.close()?;
        Ok(bytes)
    }
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Counts(counts) => counts.len(),
            Self::Numbers(numbers) => numbers.len(),
            Self::Errors(errors) => errors.len(),
        }
    }

    fn field(&self, row: usize) -> String {
        match self {
            Self::Texts(texts) => quoted(&texts[row]),
            Self::Counts(counts) => counts[row].to_string(),
            Self::Numbers(numbers) => numbers[row].map_or_else(String::new, |one| one.to_string()),
            Self::Errors(errors) => quoted(errors[row].as_deref().unwrap_or_default()),
        }
    }

    fn parquet_type(&self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self {
            Self::Texts(_) | Self::Errors(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Self::Counts(_) => (Physical::INT64, None),
            Self::Numbers(_) => (Physical::DOUBLE, None),
        };
        let repetition = match self {
            Self::Texts(_) | Self::Counts(_) => Repetition::REQUIRED,
            Self::Numbers(_) | Self::Errors(_) => Repetition::OPTIONAL,
        };
        let builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        builder.with_logical_type(logical).build().map(Arc::new)
    }

    fn write(
        &self,
        group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    ) -> Result<(), ParquetError> {
        let missing = || ParquetError::General("a column has no writer".to_owned());
        let mut writer = group.next_column()?.ok_or_else(missing)?;
        match self {
            Self::Texts(texts) => {
                let values: Vec<ByteArray> =
                    texts.iter().map(|text| ByteArray::from(text.as_str())).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            Self::Counts(counts) => {
                writer.typed::<Int64Type>().write_batch(counts, None, None)?;
            }
            Self::Numbers(numbers) => {
                let values: Vec<f64> = numbers.iter().copied().flatten().collect();
                let levels = definition_levels(numbers);
                writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            Self::Errors(errors) => {
                let values = errors.iter().flatten().map(|text| ByteArray::from(text.as_str()));
                let (values, levels) = (values.collect::<Vec<_>>(), definition_levels(errors));
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
        }
        writer.close()
    }
}

/// 1 for each value that is there, 0 for each that is not.
fn definition_levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

/// A field of comma-separated values.
pub(super) fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}
