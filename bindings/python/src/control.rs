//! Management of a forwarder: datasets and commands.

use std::sync::Arc;

use ndn_access::OwnConnection;
use ndn_client::canonical_face_uri;
use ndn_management::{
    ChannelStatus, ControlParameters, Dataset, DatasetValue, Described, FaceQueryFilter,
    FaceStatus, FibEntry, Form, Parameter, RibEntry, StrategyChoice, Verb,
};
use ndn_types::FaceUri;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList};
use tokio::runtime::Handle;

use crate::arguments::name_of;
use crate::error::Failure;
use crate::packets::{Running, start};

/// The commands and datasets of a forwarder.
#[pyclass(frozen, module = "namewire")]
#[derive(Debug)]
pub(crate) struct NativeControl {
    own: Arc<OwnConnection>,
    runtime: Handle,
}

impl NativeControl {
    pub(crate) fn new(own: Arc<OwnConnection>, runtime: Handle) -> Self {
        Self { own, runtime }
    }
}

#[pymethods]
impl NativeControl {
    /// Fetch a dataset: a list of dictionaries.
    fn start_dataset(&self, dataset: &str, done: Py<PyAny>) -> PyResult<Running> {
        let own = Arc::clone(&self.own);
        let dataset = dataset.to_owned();
        let work = async move {
            let management = own.endpoint().await?.management();
            Ok(match dataset.as_str() {
                "status" => Values(vec![management.forwarder_status().await?.value()]),
                "cs" => Values(vec![management.cs_info().await?.value()]),
                "faces" => Values::of(&management.dataset::<FaceStatus>(&Dataset::FaceList).await?),
                "channels" => {
                    Values::of(&management.dataset::<ChannelStatus>(&Dataset::ChannelList).await?)
                }
                "routes" => Values::of(&management.dataset::<RibEntry>(&Dataset::RibList).await?),
                "fib" => Values::of(&management.dataset::<FibEntry>(&Dataset::FibList).await?),
                "strategies" => {
                    let dataset = Dataset::StrategyChoiceList;
                    Values::of(&management.dataset::<StrategyChoice>(&dataset).await?)
                }
                other => return Err(Failure::value(format!("{other} is not a dataset"))),
            })
        };
        Ok(start(&self.runtime, done, work))
    }

    /// The faces with a FaceId or to a peer: a list of dictionaries.
    fn start_find_faces(&self, face: Face, done: Py<PyAny>) -> PyResult<Running> {
        let own = Arc::clone(&self.own);
        let work = async move {
            let filter = match face {
                Face::Id(id) => FaceQueryFilter { face_id: Some(id), ..FaceQueryFilter::default() },
                Face::Uri(uri) => {
                    let remote_uri = Some(canonical(&uri).await?);
                    FaceQueryFilter { remote_uri, ..FaceQueryFilter::default() }
                }
            };
            let query = Dataset::FaceQuery(filter);
            let management = own.endpoint().await?.management();
            Ok(Values::of(&management.dataset::<FaceStatus>(&query).await?))
        };
        Ok(start(&self.runtime, done, work))
    }

    /// Carry out a command, such as `rib/register`; the result is a dictionary of the parameters in the response.
    fn start_command(
        &self,
        command: &str,
        parameters: &Bound<'_, PyDict>,
        done: Py<PyAny>,
    ) -> PyResult<Running> {
        let found = command.split_once('/');
        let verb = found.and_then(|(module, verb)| Verb::find(module.as_bytes(), verb.as_bytes()));
        let unknown = || PyValueError::new_err(format!("{command:?} is not a command"));
        let verb = verb.ok_or_else(unknown)?;
        let parameters = parameters_of(verb, parameters)?;
        let own = Arc::clone(&self.own);
        let work = async move {
            let accepted = own.endpoint().await?.management().execute(verb, &parameters).await?;
            Ok(Values(vec![accepted.value()]))
        };
        Ok(start(&self.runtime, done, work))
    }

    /// Create a face; the result is its FaceId, and whether it is new.
    fn start_create_face(
        &self,
        parameters: &Bound<'_, PyDict>,
        done: Py<PyAny>,
    ) -> PyResult<Running> {
        let mut parameters = parameters_of(Verb::FaceCreate, parameters)?;
        let own = Arc::clone(&self.own);
        let work = async move {
            for uri in [&mut parameters.uri, &mut parameters.local_uri].into_iter().flatten() {
                *uri = canonical(uri).await?;
            }
            let management = own.endpoint().await?.management();
            let (face, is_new) = management.create_face(&parameters).await?;
            Ok((face.face_id.unwrap_or(0), is_new))
        };
        Ok(start(&self.runtime, done, work))
    }

    /// Erase Data from the Content Store; the result is the number of packets.
    #[pyo3(signature = (prefix, done, *, count))]
    fn start_erase(&self, prefix: &str, done: Py<PyAny>, count: Option<u64>) -> PyResult<Running> {
        let prefix = name_of(prefix)?;
        let own = Arc::clone(&self.own);
        let work =
            async move { Ok(own.endpoint().await?.management().erase(&prefix, count).await?) };
        Ok(start(&self.runtime, done, work))
    }
}

/// A face: its FaceId, or the URI of its peer.
#[derive(FromPyObject)]
pub(crate) enum Face {
    Id(u64),
    Uri(String),
}

/// The URI as the forwarder has it. That of an application's face, such as fd://20, has no canonical form.
async fn canonical(uri: &str) -> Result<String, Failure> {
    let parsed = FaceUri::parse(uri).map_err(|error| Failure::value(format!("{uri}: {error}")))?;
    let has_canonical_form =
        ["udp", "udp4", "udp6", "tcp", "tcp4", "tcp6", "ether", "dev"].contains(&parsed.scheme());
    match has_canonical_form {
        true => Ok(canonical_face_uri(&parsed).await?.to_string()),
        false => Ok(parsed.to_string()),
    }
}

/// The parameters of a command. Those that are None are absent; flags are parameters by their names.
fn parameters_of(verb: Verb, given: &Bound<'_, PyDict>) -> PyResult<ControlParameters> {
    let flags = match verb.module().flags() {
        Form::Flags(flags) => flags,
        Form::Plain | Form::Word { .. } => &[],
    };
    let mut parameters = ControlParameters::default();
    for (key, value) in given {
        let key: String = key.extract()?;
        if value.is_none() {
            continue;
        }
        if let Some(flag) = flags.iter().find(|flag| flag.name == key) {
            parameters.set_flag(flag.bit, value.extract()?);
            continue;
        }
        let invalid = |reason: String| PyValueError::new_err(format!("{key}: {reason}"));
        let named = Parameter::ALL.iter().find(|parameter| parameter.info().name == key);
        let parameter = named.ok_or_else(|| invalid("there is no such parameter".to_owned()))?;
        let value = match (value.extract::<u64>(), value.extract::<String>()) {
            (Ok(number), _) if !value.is_instance_of::<PyBool>() => DatasetValue::Number(number),
            (_, Ok(text)) => DatasetValue::Text(text),
            _ => return Err(invalid(format!("{value} is neither a positive number nor a text"))),
        };
        parameters.set(*parameter, value).map_err(invalid)?;
    }
    if !verb.takes(Parameter::Mask) {
        // All flags of the command are set.
        parameters.mask = None;
    }
    Ok(parameters)
}

/// Entries of a dataset, which become a list of dictionaries.
#[derive(Debug)]
struct Values(Vec<DatasetValue>);

impl Values {
    fn of<T: Described>(entries: &[T]) -> Self {
        Self(entries.iter().map(Described::value).collect())
    }
}

impl<'py> IntoPyObject<'py> for Values {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let entries = self.0.iter().map(|value| to_python(py, value));
        PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)
    }
}

fn to_python<'py>(py: Python<'py>, value: &DatasetValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        DatasetValue::None => py.None().into_bound(py),
        DatasetValue::Number(number) => number.into_pyobject(py)?.into_any(),
        DatasetValue::Text(text) => text.into_pyobject(py)?.into_any(),
        DatasetValue::List(list) => {
            let list = list.iter().map(|value| to_python(py, value));
            PyList::new(py, list.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        DatasetValue::Structure(info, values) => {
            let fields = PyDict::new(py);
            for (field, value) in info.fields.iter().zip(values) {
                if let (Form::Flags(flags), DatasetValue::Number(bits)) = (field.form, value) {
                    for flag in flags {
                        fields.set_item(flag.name, bits & flag.bit != 0)?;
                    }
                } else {
                    fields.set_item(field.name, to_python(py, value)?)?;
                }
            }
            fields.into_any()
        }
    })
}
