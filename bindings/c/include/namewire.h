/* Files from Named Data Networking: verified, by name; and what programs serve.
 *
 * Functions that return a pointer return NULL on failure, those that return a number -1. They fill `error` then, unless it is
 * NULL. All functions may be called by many threads at a time; an object may not be used after it was closed.
 */
#ifndef NAMEWIRE_H
#define NAMEWIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Length of the text of an error, with its terminating zero. */
#define NAMEWIRE_ERROR_TEXT_LEN 512

/* The reason of a failure. */
struct namewire_error {
	/* As in errno: ENOENT, EISDIR, ENOTDIR; ESTALE: the version that is open no longer exists; ETIMEDOUT: no answer;
	 * ENETUNREACH: no route, or congestion; EHOSTDOWN: no connection to the forwarder; EAGAIN: a limit of the process;
	 * EIO: the Data does not verify, or is malformed; EACCES: the server has no permission to read the file, or
	 * the forwarder rejected the registration of a prefix; EINVAL: an argument. Errors of local files have the numbers of the system. */
	int number;
	/* What failed, and why; ends with a zero. */
	char text[NAMEWIRE_ERROR_TEXT_LEN];
};

/* A connection to a forwarder. */
struct namewire_context;
/* One version of a file. */
struct namewire_file;
/* The entries of a directory. */
struct namewire_directory;
/* Something that is served. */
struct namewire_service;
/* An Interest that waits for the answer of this program. */
struct namewire_interest;

/* Options of a connection. Zero and NULL mean the default, so initialise it with zeros. Members may be added at the end. */
struct namewire_options {
	/* sizeof(struct namewire_options) */
	size_t size;
	/* Forwarder, such as "unix:///run/nfd/nfd.sock"; by default that of NDN_CLIENT_TRANSPORT or client.conf. */
	const char *transport;
	/* "digest" (the default), "none", the path of a file with a public key or certificate, "hmac:FILE" (a shared key in
	 * Base64), or "rules:FILE" (trust rules and anchors). */
	const char *verify;
	/* Maximum time of one operation; 60 s. */
	uint64_t timeout_ms;
	/* InterestLifetime; 4 s. */
	uint64_t lifetime_ms;
	/* Time after which a new version is seen; 2 s. */
	uint64_t metadata_lifetime_ms;
	/* Memory for verified content; 256 MiB. */
	uint64_t cache_bytes;
	/* Maximum size of what is fetched ahead of a program that reads in order; 16 MiB. */
	uint64_t read_ahead_bytes;
	/* Directory for verified content, which later processes read, too; programs may share it. By default there is none. A
	 * directory that cannot be used is no failure: namewire_cache_counters has the reason. */
	const char *cache_dir;
	/* Maximum size of this directory, such as "20GiB"; "10GiB". */
	const char *cache_dir_size;
};

/* A file or directory. */
struct namewire_stat {
	/* Length in bytes; 0 if size_known is 0. */
	uint64_t size;
	/* Time of the last change in nanoseconds since 1970; 0 if it is not known. */
	uint64_t modified_ns;
	/* Version; 0 if the name has none. */
	uint64_t version;
	/* Permissions as in st_mode; 0 if they are not known. */
	uint32_t permissions;
	/* 1 for a directory. */
	uint8_t is_directory;
	/* 1 if size is known. */
	uint8_t size_known;
};

/* An entry of a directory. */
struct namewire_entry {
	/* File name; ends with a zero. It is valid until the directory is closed. */
	const char *name;
	/* 1 for a directory. */
	uint8_t is_directory;
};

/* A file or directory to describe. */
struct namewire_lookup {
	/* Name (an NDN URI). */
	const char *name;
	/* Set to its properties, if it exists. */
	struct namewire_stat stat;
	/* Set to 1 if it exists, otherwise to 0. */
	uint8_t exists;
};

/* What the caches of a connection did. All but the first member are about cache_dir, in segments unless they are bytes. */
struct namewire_cache_counters {
	/* Bytes of verified content in memory. */
	uint64_t memory_bytes;
	/* Read from the directory; looked for and not there; damaged. */
	uint64_t hits, misses, damaged;
	/* Written; and not written, as they arrived faster than the disk takes them or a write failed. */
	uint64_t stored, dropped;
	/* Bytes that were removed to keep the limit. */
	uint64_t evicted_bytes;
	/* The last reason why content cannot be stored; empty if there was none. Ends with a zero. */
	char warning[NAMEWIRE_ERROR_TEXT_LEN];
};

/* A part of a vectored read. */
struct namewire_part {
	/* First byte in the file. */
	uint64_t offset;
	/* Where to write, and how many bytes. */
	void *buffer;
	size_t length;
	/* Set to the number of bytes that were read: fewer at the end of the file. */
	size_t read;
};

/* Version of the library, such as "0.1.0". */
const char *namewire_version(void);

/* Connects to a forwarder; options may be NULL. */
struct namewire_context *namewire_connect(const struct namewire_options *options, struct namewire_error *error);
/* Ends a connection. Files that are open stay usable, and keep it until they are closed. NULL is allowed. */
void namewire_disconnect(struct namewire_context *context);

/* Counts what the caches of a connection did since it was made. */
int namewire_cache_counters(struct namewire_context *context, struct namewire_cache_counters *counters,
	struct namewire_error *error);

/* Opens the current version of a file by its name (an NDN URI). A name that ends in a version opens this one, if it is the current
 * one, or is in cache_dir: then nothing is requested before something is missing there. */
struct namewire_file *namewire_open(struct namewire_context *context, const char *name, struct namewire_error *error);
/* Closes a file. NULL is allowed. */
void namewire_close(struct namewire_file *file);
/* Name with version of an open file; valid until it is closed. */
const char *namewire_file_name(const struct namewire_file *file);

/* Describes the current version of a file or directory. */
int namewire_stat(struct namewire_context *context, const char *name, struct namewire_stat *found,
	struct namewire_error *error);
/* Describes several files and directories, 64 at a time. */
int namewire_stat_each(struct namewire_context *context, struct namewire_lookup *lookups, size_t count,
	struct namewire_error *error);
/* Describes an open file. */
int namewire_fstat(const struct namewire_file *file, struct namewire_stat *found, struct namewire_error *error);

/* Reads up to `length` bytes at `offset`; returns their number: fewer at the end of the file, 0 beyond it. */
ssize_t namewire_pread(struct namewire_file *file, void *buffer, size_t length, uint64_t offset,
	struct namewire_error *error);
/* Reads several parts, fetched together; returns the number of bytes in all. */
ssize_t namewire_preadv(struct namewire_file *file, struct namewire_part *parts, size_t count,
	struct namewire_error *error);

/* Opens a directory by its name: its entries are those of this moment. */
struct namewire_directory *namewire_opendir(struct namewire_context *context, const char *name,
	struct namewire_error *error);
/* Sets `entry` to the next entry; returns 1, or 0 after the last one. */
int namewire_readdir(struct namewire_directory *directory, struct namewire_entry *entry);
/* Opens a directory, and describes its entries, many at a time. Entries that were removed meanwhile are left out. */
struct namewire_directory *namewire_opendirplus(struct namewire_context *context, const char *name,
	struct namewire_error *error);
/* As namewire_readdir, and describes the entry. Returns -1 for a directory that namewire_opendir opened, and for NULL. */
int namewire_readdirplus(struct namewire_directory *directory, struct namewire_entry *entry, struct namewire_stat *found);
/* Closes a directory. NULL is allowed. */
void namewire_closedir(struct namewire_directory *directory);

/* Options of what is served. Zero and NULL mean the default, so initialise it with zeros. Members may be added at the end. */
struct namewire_serve_options {
	/* sizeof(struct namewire_serve_options) */
	size_t size;
	/* "digest" (the default; integrity only), the path of a private key that is not encrypted (PEM), or "hmac:FILE" (a
	 * shared key in Base64). */
	const char *sign;
	/* FreshnessPeriod of Data; 10 s. */
	uint64_t freshness_ms;
	/* Content bytes in a segment; what fits a packet. */
	size_t segment_bytes;
	/* Directory for the digests of files, so that they are computed once and ahead; by default they are kept in memory. */
	const char *manifest_directory;
};

/* Publishes a copy of `length` bytes as the current version of an object: every segment is signed. A version at the end of the name
 * is that of the object. */
struct namewire_service *namewire_publish(struct namewire_context *context, const char *name, const void *content,
	size_t length, const struct namewire_serve_options *options, struct namewire_error *error);

/* Serves a file as an object, or the files below a directory, without hidden ones and symbolic links. Changes get new versions. */
struct namewire_service *namewire_serve_path(struct namewire_context *context, const char *name, const char *path,
	const struct namewire_serve_options *options, struct namewire_error *error);

/* Answers an Interest. It is called with the argument `data` of namewire_serve, on a thread of the library, for one Interest at a
 * time; it may not throw. The Interest belongs to the program, which ends it by namewire_answer or namewire_nack, in the function or
 * later, on any thread. */
typedef void (*namewire_answer_function)(void *data, struct namewire_interest *interest);

/* Calls `answer` for the Interests below a prefix. When more than 4,096 wait, further ones are dropped; consumers repeat them. */
struct namewire_service *namewire_serve(struct namewire_context *context, const char *prefix, namewire_answer_function answer,
	void *data, const struct namewire_serve_options *options, struct namewire_error *error);

/* The prefix, or the name with version of what was published; valid until the service ends. */
const char *namewire_service_name(const struct namewire_service *service);

/* Ends a service, and removes its route. A function of namewire_serve has returned then, and is not called again; if it is
 * that function which ends its service, it is not called again. Returns -1 if the forwarder did not remove the route; the
 * service has ended all the same. NULL is allowed. */
int namewire_unserve(struct namewire_service *service, struct namewire_error *error);

/* Name of an Interest; valid until the Interest ends. */
const char *namewire_interest_name(const struct namewire_interest *interest);

/* ApplicationParameters of an Interest; NULL if it has none. Valid until the Interest ends. */
const void *namewire_interest_parameters(const struct namewire_interest *interest, size_t *length);

/* Answers an Interest with signed Data, whose name is that of the Interest if `name` is NULL. It ends the Interest, also when it
 * fails because the Data does not fit a packet. */
int namewire_answer(struct namewire_interest *interest, const char *name, const void *content, size_t length,
	struct namewire_error *error);

/* Answers an Interest with a Nack (reason NoRoute), and ends it. NULL is allowed. */
void namewire_nack(struct namewire_interest *interest);

#ifdef __cplusplus
}
#endif

#endif
