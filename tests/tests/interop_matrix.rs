//! Transfers of an object from every application to every other one. `interop.rs` has those of each with itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod unix {
    namewire_tests::transfers! { over_unix:
        namewire_to_python Namewire Python;
        namewire_to_ndnts Namewire Ndnts;
        namewire_to_ndn_js Namewire NdnJs;
        namewire_to_ndn_app Namewire NdnApp;
        python_to_namewire Python Namewire;
        python_to_ndnts Python Ndnts;
        python_to_ndn_js Python NdnJs;
        python_to_ndn_app Python NdnApp;
        ndnts_to_namewire Ndnts Namewire;
        ndnts_to_python Ndnts Python;
        ndnts_to_ndn_js Ndnts NdnJs;
        ndnts_to_ndn_app Ndnts NdnApp;
        ndn_js_to_namewire NdnJs Namewire;
        ndn_js_to_python NdnJs Python;
        ndn_js_to_ndnts NdnJs Ndnts;
        ndn_js_to_ndn_app NdnJs NdnApp;
        ndn_js_marked_to_namewire NdnJsMarked Namewire;
        ndn_app_to_namewire NdnApp Namewire;
        ndn_app_to_python NdnApp Python;
        ndn_app_to_ndnts NdnApp Ndnts;
        ndn_app_to_ndn_js NdnApp NdnJs;
    }
}

/// All but ndn-app, which has Unix sockets only.
mod tcp {
    namewire_tests::transfers! { over_tcp:
        namewire_to_python Namewire Python;
        namewire_to_ndnts Namewire Ndnts;
        namewire_to_ndn_js Namewire NdnJs;
        python_to_namewire Python Namewire;
        python_to_ndnts Python Ndnts;
        python_to_ndn_js Python NdnJs;
        ndnts_to_namewire Ndnts Namewire;
        ndnts_to_python Ndnts Python;
        ndnts_to_ndn_js Ndnts NdnJs;
        ndn_js_to_namewire NdnJs Namewire;
        ndn_js_to_python NdnJs Python;
        ndn_js_to_ndnts NdnJs Ndnts;
    }
}

/// Programs that are used if they are found on PATH.
mod on_path {
    namewire_tests::transfers! { over_unix:
        chunks_to_namewire Chunks Namewire;
        chunks_marked_to_namewire ChunksMarked Namewire;
        namewire_to_chunks Namewire Chunks;
        chunks_to_python Chunks Python;
        ndnts_to_chunks Ndnts Chunks;
        ndnd_to_namewire Ndnd Namewire;
        namewire_to_ndnd Namewire Ndnd;
        ndnd_to_chunks Ndnd Chunks;
        chunks_to_ndnd Chunks Ndnd;
    }
}
