/* The site that an XRootD server exports: a prefix, a connection, and the names of files. */
#ifndef NAMEWIRE_XROOTD_SITE_HH
#define NAMEWIRE_XROOTD_SITE_HH

#include <memory>
#include <mutex>
#include <string>

#include <XrdSys/XrdSysError.hh>
#include <sys/stat.h>

#include <namewire.hpp>

namespace namewire_xrootd {

/* Options, from the line of ofs.osslib. */
struct Options {
	std::string prefix = "/";
	std::string verify;
	std::string transport;
	std::string cache_dir;
	std::string cache_dir_size;
	namewire_options limits{};

	/* Reads `key=value` parameters, separated by spaces. Throws std::invalid_argument. */
	static Options parse(const char *parameters);
};

/* Returns -errno for XRootD. Its protocol knows fewer reasons than the library. */
int number_for_client(int number);

class Site {
public:
	Site(Options options, XrdSysLogger *logger);

	/* The connection; made again by each call until it succeeds. Throws namewire::Error. */
	std::shared_ptr<namewire::Context> context();

	/* The name of a path. Throws namewire::Error (ENOENT) for a path that leaves the prefix. */
	std::string name_of(const char *path) const;

	/* Fills `buffer` for a path. Throws namewire::Error. */
	void stat(const std::string &name, struct stat *buffer);

	/* Fills `buffer` for a file or directory of this name. */
	static void fill(const std::string &name, const struct namewire_stat &found, struct stat *buffer);

	/* Runs `work`; logs its exception and returns -errno. */
	template <typename Work> auto run(const char *operation, const char *path, Work work) -> decltype(work())
	{
		try {
			return work();
		} catch (const namewire::Error &error) {
			return report(operation, path, error.code().value(), error.what());
		} catch (const std::bad_alloc &) {
			return report(operation, path, ENOMEM, "out of memory");
		} catch (const std::exception &error) {
			return report(operation, path, EFAULT, error.what());
		}
	}

	XrdSysError log;

private:
	int report(const char *operation, const char *path, int number, const char *text);

	Options options_;
	std::mutex mutex_;
	std::shared_ptr<namewire::Context> context_;
};

} // namespace namewire_xrootd

#endif
