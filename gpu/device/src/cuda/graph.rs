//! CUDA graphs: work captured from a stream once and launched many times.

use super::api::Handle;
use super::gpu::Gpu;
use crate::error::{Error, ErrorKind};

/// Work that was captured, ready to run.
pub(crate) struct Graph {
    gpu: Gpu,
    executable: Handle,
}

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads go on as they please.
const THREAD_LOCAL: u32 = 1;

impl Gpu {
    /// Captures the work that the function enqueues on this handle's stream.
    ///
    /// # Errors
    ///
    /// Returns the error of the function or of the driver, and an error if nothing was enqueued on this stream.
    pub(crate) fn capture<E: From<Error>>(
        &self,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Graph, E> {
        let stream = self.stream.handle();
        self.call("cuStreamBeginCapture", |api| {
            // SAFETY: the stream lives.
            unsafe { (api.stream_begin_capture)(stream, THREAD_LOCAL) }
        })?;
        let worked = work();
        let mut template: Handle = std::ptr::null_mut();
        let ended = self.call("cuStreamEndCapture", |api| {
            // SAFETY: stores one handle, null if the capture was broken off.
            unsafe { (api.stream_end_capture)(stream, &mut template) }
        });
        let graph = worked.and_then(|()| {
            ended?;
            Ok(self.instantiate(template)?)
        });
        if !template.is_null() {
            let _ = self.call("cuGraphDestroy", |api| {
                // SAFETY: the handle came from the capture; what was instantiated from it is a copy.
                unsafe { (api.graph_destroy)(template) }
            });
        }
        graph
    }

    fn instantiate(&self, template: Handle) -> Result<Graph, Error> {
        let mut nodes = 0;
        self.call("cuGraphGetNodes", |api| {
            // SAFETY: with null for the nodes it stores how many there are.
            unsafe { (api.graph_get_nodes)(template, std::ptr::null_mut(), &mut nodes) }
        })?;
        if nodes == 0 {
            return Err(ErrorKind::NothingCaptured.into());
        }
        let mut executable = std::ptr::null_mut();
        self.call("cuGraphInstantiate", |api| {
            // SAFETY: stores one handle; no flags.
            unsafe { (api.graph_instantiate)(&mut executable, template, 0) }
        })?;
        Ok(Graph {
            gpu: self.clone(),
            executable,
        })
    }
}

impl Graph {
    /// Launches the work on the stream.
    pub(crate) fn launch(&self) -> Result<(), Error> {
        self.gpu.call("cuGraphLaunch", |api| {
            // SAFETY: graph and stream live.
            unsafe { (api.graph_launch)(self.executable, self.gpu.stream.handle()) }
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.gpu.call("cuGraphExecDestroy", |api| {
            // SAFETY: the handle has one owner, which is being dropped.
            unsafe { (api.graph_exec_destroy)(self.executable) }
        });
    }
}
