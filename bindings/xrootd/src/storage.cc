/* The storage system, read-only: files and directories below the prefix. */
#include <algorithm>
#include <fcntl.h>

#include <XrdOss/XrdOss.hh>
#include <XrdSfs/XrdSfsAio.hh>
#include <XrdVersion.hh>

#include "checksums.hh"
#include "site.hh"

namespace namewire_xrootd {

namespace {

class File : public XrdOssDF {
public:
	File(Site &site, const char *tident) : XrdOssDF(tident, DF_isFile), site_(site) {}

	int Open(const char *path, int flags, mode_t, XrdOucEnv &) override
	{
		if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC | O_APPEND)))
			return -EROFS;
		return site_.run("open", path, [&] {
			path_ = path;
			file_ = std::make_unique<namewire::File>(site_.context()->open(site_.name_of(path)));
			return 0;
		});
	}

	int Close(long long *size) override
	{
		if (!file_)
			return -EBADF;
		if (size)
			*size = static_cast<long long>(file_->size());
		file_.reset();
		return 0;
	}

	int Fstat(struct stat *buffer) override
	{
		if (!file_)
			return -EBADF;
		return site_.run("stat", path_.c_str(), [&] {
			Site::fill(site_.name_of(path_.c_str()), file_->stat(), buffer);
			return 0;
		});
	}

	ssize_t Read(off_t, size_t) override { return 0; }

	ssize_t Read(void *buffer, off_t offset, size_t size) override
	{
		if (!file_)
			return -EBADF;
		if (offset < 0)
			return -EINVAL;
		return site_.run("read", path_.c_str(), [&]() -> ssize_t {
			return static_cast<ssize_t>(file_->pread(buffer, size, static_cast<std::uint64_t>(offset)));
		});
	}

	/* Features() refuses these; a server that asks nevertheless waits for the read. */
	int Read(XrdSfsAio *request) override
	{
		const struct aiocb &wanted = request->sfsAio;
		void *const buffer = const_cast<void *>(wanted.aio_buf);
		request->Result = Read(buffer, wanted.aio_offset, wanted.aio_nbytes);
		request->doneRead();
		return 0;
	}

	ssize_t ReadRaw(void *buffer, off_t offset, size_t size) override { return Read(buffer, offset, size); }

	ssize_t ReadV(XrdOucIOVec *parts, int count) override
	{
		if (!file_)
			return -EBADF;
		return site_.run("readv", path_.c_str(), [&]() -> ssize_t {
			std::vector<namewire_part> wanted;
			for (int index = 0; index < count; index++) {
				const XrdOucIOVec &part = parts[index];
				if (part.offset < 0 || part.size < 0)
					return -EINVAL;
				wanted.push_back({static_cast<std::uint64_t>(part.offset), part.data,
					static_cast<std::size_t>(part.size), 0});
			}
			const std::size_t read = file_->preadv(wanted);
			for (const namewire_part &part : wanted)
				/* As XRootD's own: a part beyond the end. */
				if (part.read != part.length)
					return -ESPIPE;
			return static_cast<ssize_t>(read);
		});
	}

	int Fchmod(mode_t) override { return -EROFS; }
	int Fsync() override { return 0; }
	int Fsync(XrdSfsAio *) override { return -EROFS; }
	int Ftruncate(unsigned long long) override { return -EROFS; }
	ssize_t Write(const void *, off_t, size_t) override { return -EROFS; }
	int Write(XrdSfsAio *) override { return -EROFS; }

private:
	Site &site_;
	std::string path_;
	std::unique_ptr<namewire::File> file_;
};

class Directory : public XrdOssDF {
public:
	Directory(Site &site, const char *tident) : XrdOssDF(tident, DF_isDir), site_(site) {}

	int Opendir(const char *path, XrdOucEnv &) override
	{
		return site_.run("opendir", path, [&] {
			path_ = path;
			entries_ = site_.context()->list(site_.name_of(path));
			lookups_.clear();
			next_ = first_ = 0;
			is_open_ = true;
			return 0;
		});
	}

	int Readdir(char *buffer, int length) override
	{
		if (!is_open_)
			return -EBADF;
		for (; next_ < entries_.size(); next_++) {
			const std::string &name = entries_[next_].name;
			/* In listings of XRootD, names end with a newline. */
			if (name.find('\n') != std::string::npos) {
				site_.log.Emsg("readdir", path_.c_str(), "has a name with a newline, which is not listed");
				continue;
			}
			if (length <= 0 || name.size() >= static_cast<std::size_t>(length))
				return -ENAMETOOLONG;
			if (found_) {
				const int exists = site_.run("readdir", path_.c_str(), [&] { return describe(); });
				if (exists < 0)
					return exists;
				if (!exists)
					continue;
			}
			next_++;
			std::memcpy(buffer, name.c_str(), name.size() + 1);
			return 0;
		}
		if (length > 0)
			*buffer = 0;
		return 0;
	}

	int StatRet(struct stat *buffer) override
	{
		found_ = buffer;
		return 0;
	}

	int Close(long long *) override
	{
		if (!is_open_)
			return -EBADF;
		is_open_ = false;
		entries_.clear();
		lookups_.clear();
		return 0;
	}

private:
	/* Entries that are described together. */
	static constexpr std::size_t PART = 64;

	/* Describes the next entry in `found_`; returns 0 if it was removed meanwhile, otherwise 1. */
	int describe()
	{
		if (next_ - first_ >= lookups_.size())
			describe_part();
		const namewire_lookup &lookup = lookups_[next_ - first_];
		if (lookup.exists)
			Site::fill(lookup.name, lookup.stat, found_);
		return lookup.exists;
	}

	/* Describes a part of the entries, from the next one. The client gets these before the others are described. */
	void describe_part()
	{
		lookups_.clear();
		names_.clear();
		const std::size_t end = std::min(next_ + PART, entries_.size());
		for (std::size_t index = next_; index < end; index++)
			names_.push_back(site_.name_of((path_ + '/' + entries_[index].name).c_str()));
		std::vector<namewire_lookup> lookups;
		for (const std::string &name : names_)
			lookups.push_back({name.c_str(), {}, 0});
		site_.context()->stat_each(lookups);
		lookups_ = std::move(lookups);
		first_ = next_;
	}

	Site &site_;
	std::string path_;
	std::vector<namewire::Entry> entries_;
	std::size_t next_ = 0;
	/* A part of the entries, from `first_`. Its names are those of `names_`. */
	std::vector<std::string> names_;
	std::vector<namewire_lookup> lookups_;
	std::size_t first_ = 0;
	bool is_open_ = false;
	struct stat *found_ = nullptr;
};

class Storage : public XrdOss {
public:
	explicit Storage(Site &site) : site_(site) {}

	XrdOssDF *newDir(const char *tident) override { return new (std::nothrow) Directory(site_, tident); }
	XrdOssDF *newFile(const char *tident) override { return new (std::nothrow) File(site_, tident); }

	/* Files have no descriptor; reads wait in the thread of the request. */
	uint64_t Features() override { return XRDOSS_HASNOSF | XRDOSS_HASNAIO; }

	int Init(XrdSysLogger *, const char *) override { return 0; }

	int Stat(const char *path, struct stat *buffer, int, XrdOucEnv *) override
	{
		return site_.run("stat", path, [&] {
			site_.stat(site_.name_of(path), buffer);
			return 0;
		});
	}

	int Chmod(const char *, mode_t, XrdOucEnv *) override { return -EROFS; }
	int Create(const char *, const char *, mode_t, XrdOucEnv &, int) override { return -EROFS; }
	int Mkdir(const char *, mode_t, int, XrdOucEnv *) override { return -EROFS; }
	int Remdir(const char *, int, XrdOucEnv *) override { return -EROFS; }
	int Rename(const char *, const char *, XrdOucEnv *, XrdOucEnv *) override { return -EROFS; }
	int Truncate(const char *, unsigned long long, XrdOucEnv *) override { return -EROFS; }
	int Unlink(const char *, int, XrdOucEnv *) override { return -EROFS; }

private:
	Site &site_;
};

/* The one site of a server. XRootD never unloads its storage system. */
Site *the_site = nullptr;

} // namespace

} // namespace namewire_xrootd

using namespace namewire_xrootd;

XrdVERSIONINFO(XrdOssGetStorageSystem2, namewire);
XrdVERSIONINFO(XrdCksInit, namewire);

extern "C" XrdOss *XrdOssGetStorageSystem2(
	XrdOss *, XrdSysLogger *logger, const char *, const char *parameters, XrdOucEnv *)
{
	XrdSysError log(logger, "namewire_");
	try {
		the_site = new Site(Options::parse(parameters), logger);
		log.Say("++++++ Namewire ", namewire_version(), " storage system initialization started.");
		/* A forwarder that is not there yet is awaited; an option that is wrong never becomes right. */
		const int failed = the_site->run("connect", "the forwarder", [] {
			the_site->context();
			return 0;
		});
		if (failed && failed != number_for_client(EHOSTDOWN))
			return nullptr;
		log.Say("------ Namewire storage system initialization completed.");
		return new Storage(*the_site);
	} catch (const std::exception &error) {
		log.Emsg("config", "ofs.osslib:", error.what());
		return nullptr;
	}
}

extern "C" XrdCks *XrdCksInit(XrdSysError *log, const char *, const char *)
{
	if (!the_site) {
		log->Emsg("config", "ofs.ckslib: ofs.osslib has to be this library, too");
		return nullptr;
	}
	return new Checksums(*the_site, log, XrdVERSIONINFOVAR(XrdCksInit));
}
