/* The storage system, read-only: files and directories below the prefix. */
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
			name_ = site_.name_of(path);
			entries_.clear();
			for (namewire::Entry &entry : site_.context()->list(name_))
				entries_.push_back({std::move(entry.name), {}});
			next_ = 0;
			is_open_ = true;
			is_described_ = false;
			return 0;
		});
	}

	int Readdir(char *buffer, int length) override
	{
		if (!is_open_)
			return -EBADF;
		if (found_ && !is_described_) {
			const int failed = describe();
			if (failed)
				return failed;
		}
		while (next_ < entries_.size()) {
			const namewire::DescribedEntry &entry = entries_[next_];
			/* In listings of XRootD, names end with a newline. */
			if (entry.name.find('\n') != std::string::npos) {
				site_.log.Emsg("readdir", path_.c_str(), "has a name with a newline, which is not listed");
				next_++;
				continue;
			}
			if (length <= 0 || entry.name.size() >= static_cast<std::size_t>(length))
				return -ENAMETOOLONG;
			if (found_) {
				const int failed = site_.run("readdir", path_.c_str(), [&] {
					Site::fill(site_.name_of((path_ + '/' + entry.name).c_str()), entry.stat, found_);
					return 0;
				});
				if (failed)
					return failed;
			}
			next_++;
			std::memcpy(buffer, entry.name.c_str(), entry.name.size() + 1);
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
		return 0;
	}

private:
	/* Describes the entries, many at a time. XRootD calls StatRet() before it asks for the first one. */
	int describe()
	{
		return site_.run("opendir", path_.c_str(), [&] {
			entries_ = site_.context()->list_described(name_);
			next_ = 0;
			is_described_ = true;
			return 0;
		});
	}

	Site &site_;
	std::string path_;
	std::string name_;
	std::vector<namewire::DescribedEntry> entries_;
	std::size_t next_ = 0;
	bool is_open_ = false;
	/* Whether the entries have their attributes. */
	bool is_described_ = false;
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
